/** Conversations kept in this browser: to open, find, name, take along and throw away. */
import type { RefObject, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { reason } from "../api/client";
import { fileName, fromJson, toJson, toMarkdown } from "../conversation/transfer";
import * as tree from "../conversation/tree";
import type { Conversation } from "../conversation/types";
import { saveFile } from "../common/file";
import * as format from "../common/format";
import { Coal, Icon } from "../common/icons";
import type { Theme } from "../common/theme";
import type { ChatModel } from "./model";

interface Properties {
  model: ChatModel;
  searchBox: RefObject<HTMLInputElement | null>;
  theme: Theme;
  onStart: () => void;
  onOpen: (id: string) => void;
  onTheme: () => void;
  onHelp: () => void;
  onClose: () => void;
}

const THEMES = { system: "as the system", light: "light", dark: "dark" } as const;
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

export function Sidebar(properties: Properties): VNode {
  const { model, searchBox, theme, onStart, onOpen, onTheme, onHelp, onClose } = properties;
  const [query, setQuery] = useState("");
  const found = model.conversations.filter((conversation) => tree.matches(conversation, query));
  return (
    <nav class="sidebar" aria-label="Conversations">
      <div class="brand">
        <Coal />
        <strong>gleed</strong>
        <button type="button" class="icon phone" aria-label="Close conversations" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <button type="button" class="start" title="New conversation (Alt+N)" onClick={onStart}>
        <Icon name="plus" />
        New conversation
      </button>
      <label class="search">
        <Icon name="search" />
        <input
          ref={searchBox}
          type="search"
          aria-label="Search conversations"
          placeholder="Search"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && found[0]) onOpen(found[0].id);
          }}
        />
      </label>
      <ul class="conversations">
        {found.map((conversation) => (
          <Entry key={conversation.id} model={model} conversation={conversation} onOpen={onOpen} />
        ))}
        {found.length === 0 && <li class="note">{query ? "Nothing found." : "No conversations yet."}</li>}
      </ul>
      <div class="tools">
        <Import model={model} />
        <button
          type="button"
          class="icon"
          aria-label="Export all conversations"
          title="Export all conversations"
          disabled={model.conversations.length === 0}
          onClick={() => saveFile("conversations.json", "application/json", toJson(model.conversations))}
        >
          <Icon name="download" />
        </button>
        <a class="icon" href="/status" aria-label="Server status" title="Server status">
          <Icon name="plot" />
        </a>
        <button
          type="button"
          class="icon"
          aria-label={`Colours: ${THEMES[theme]}`}
          title={`Colours: ${THEMES[theme]} (Alt+L)`}
          onClick={onTheme}
        >
          <Icon name={THEME_ICONS[theme]} />
        </button>
        <button type="button" class="icon" aria-label="Keyboard" title="Keyboard (?)" onClick={onHelp}>
          <Icon name="help" />
        </button>
      </div>
    </nav>
  );
}

function Import({ model }: { model: ChatModel }): VNode {
  const picker = useRef<HTMLInputElement>(null);
  const read = async (files: FileList | null) => {
    for (const file of files ?? []) {
      try {
        model.insert(fromJson(await file.text()));
      } catch (error) {
        model.report(`${file.name} was not imported. ${reason(error)}`);
      }
    }
    if (picker.current) picker.current.value = "";
  };
  return (
    <>
      <button
        type="button"
        class="icon"
        aria-label="Import conversations"
        title="Import conversations"
        onClick={() => picker.current?.click()}
      >
        <Icon name="upload" />
      </button>
      <input
        ref={picker}
        type="file"
        accept=".json,application/json"
        multiple
        hidden
        aria-label="Conversations to import"
        onChange={(event) => void read(event.currentTarget.files)}
      />
    </>
  );
}

interface EntryProperties {
  model: ChatModel;
  conversation: Conversation;
  onOpen: (id: string) => void;
}

function Entry({ model, conversation, onOpen }: EntryProperties): VNode {
  const [renaming, setRenaming] = useState(false);
  const { id } = conversation;
  const current = model.current.id === id;
  const name = tree.title(conversation);
  if (renaming) {
    return (
      <li>
        <NameBox
          name={name}
          onDone={(changed) => {
            setRenaming(false);
            if (changed !== null) model.rename(id, changed);
          }}
        />
      </li>
    );
  }
  return (
    <li class={current ? "current" : ""}>
      <button type="button" class="open" aria-current={current ? "page" : undefined} onClick={() => onOpen(id)}>
        <span class="name">{name}</span>
        <small>{model.isAnswering(id) ? <span class="dot busy" /> : format.when(conversation.updated)}</small>
      </button>
      <Menu label={`More about ${name}`}>
        <button type="button" onClick={() => setRenaming(true)}>
          Rename
        </button>
        <button
          type="button"
          onClick={() => saveFile(fileName(conversation, "md"), "text/markdown", toMarkdown(conversation))}
        >
          Export as Markdown
        </button>
        <button
          type="button"
          onClick={() => saveFile(fileName(conversation, "json"), "application/json", toJson([conversation]))}
        >
          Export as JSON
        </button>
        <DeleteButton onDelete={() => model.remove(id)} />
      </Menu>
    </li>
  );
}

/** A menu that opens below its button, and closes when something in it was chosen or the focus leaves it. */
function Menu({ label, children }: { label: string; children: VNode[] }): VNode {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const element = menu.current;
    const leave = (event: FocusEvent | MouseEvent) => {
      const to = event instanceof FocusEvent ? event.relatedTarget : event.target;
      if (element && to instanceof Node && !element.contains(to)) element.open = false;
    };
    element?.addEventListener("focusout", leave);
    document.addEventListener("click", leave);
    return () => document.removeEventListener("click", leave);
  }, []);
  return (
    <details
      class="menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !menu.current?.open) return;
        event.preventDefault();
        menu.current.open = false;
        menu.current.querySelector("summary")?.focus();
      }}
      onClick={(event) => {
        const button = event.target instanceof Element && event.target.closest("button");
        if (button && !button.dataset.stays && menu.current) menu.current.open = false;
      }}
    >
      <summary class="icon" aria-label={label} title={label}>
        <Icon name="more" />
      </summary>
      <div>{children}</div>
    </details>
  );
}

/** Deleting cannot be undone: it is asked for twice. */
function DeleteButton({ onDelete }: { onDelete: () => void }): VNode {
  const [sure, setSure] = useState(false);
  return (
    <button
      type="button"
      class="danger"
      data-stays="yes"
      onBlur={() => setSure(false)}
      onClick={() => (sure ? onDelete() : setSure(true))}
    >
      {sure ? "Delete for good" : "Delete…"}
    </button>
  );
}

function NameBox({ name, onDone }: { name: string; onDone: (name: string | null) => void }): VNode {
  const box = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useEffect(() => box.current?.select(), []);
  /** Once only: a box that is taken away loses the focus too. */
  const done = (changed: string | null) => {
    if (!over.current) onDone(changed);
    over.current = true;
  };
  return (
    <input
      ref={box}
      class="name-box"
      aria-label="Name of the conversation"
      defaultValue={name}
      onBlur={(event) => done(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") done(event.currentTarget.value);
        else if (event.key === "Escape") done(null);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}
