/** One message: its text, its thoughts, what went wrong, and what can be done with it. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Message } from "../conversation/types";
import { Markdown } from "../markdown/view";
import { CopyButton } from "../common/copy";
import * as format from "../common/format";
import { Icon, type IconName } from "../common/icons";
import { memo } from "../common/memo";
import { fit } from "./composer";
import type { ChatModel } from "./model";
import { Tokens } from "./tokens";

interface Properties {
  model: ChatModel;
  message: Message;
  growing: boolean;
  tokenView: boolean;
  /** Which of how many versions this is, from 0. */
  version: number;
  versions: number;
}

export const MessageView = memo(function MessageView(properties: Properties): VNode {
  const { model, message, growing } = properties;
  const [editing, setEditing] = useState(false);
  const mine = message.role === "user";
  return (
    <li id={`message-${message.id}`} class={`message ${message.role}`} data-finish={growing ? "" : message.finish}>
      <div class="who">{mine ? "You" : message.model || "Assistant"}</div>
      {editing ? (
        <Editor
          text={message.content}
          action={mine ? "Send" : "Keep"}
          onCancel={() => setEditing(false)}
          onDone={(text) => {
            setEditing(false);
            void model.edit(message.id, text);
          }}
        />
      ) : (
        <Text {...properties} />
      )}
      {message.error && (
        <div class="error" role="alert">
          {message.error}
        </div>
      )}
      {!editing && <Actions {...properties} onEdit={() => setEditing(true)} />}
    </li>
  );
});

function Text({ model, message, growing, tokenView }: Properties): VNode {
  if (message.role === "user") return <div class="bubble">{message.content}</div>;
  const tokens = tokenView && message.tokens;
  const waiting = growing && !message.content && !message.reasoning;
  return (
    <div class="text" aria-busy={growing}>
      {message.reasoning && (
        <details class="reasoning" open={growing && !message.content}>
          <summary>{growing && !message.content ? "Thinking…" : "Thoughts"}</summary>
          {tokens ? <Tokens model={model} message={message} part="reasoning" /> : <Markdown source={message.reasoning} />}
        </details>
      )}
      {waiting && (
        <span class="waiting" aria-label="Waiting for the first token">
          <i />
          <i />
          <i />
        </span>
      )}
      {tokens ? <Tokens model={model} message={message} part="content" /> : <Markdown source={message.content} />}
      {tokenView && !message.tokens && !growing && message.content && (
        <p class="note">This answer came without its tokens. Ask again with the token view on to see them.</p>
      )}
    </div>
  );
}

function Actions({ model, message, growing, version, versions, onEdit }: Properties & { onEdit: () => void }): VNode {
  const mine = message.role === "user";
  const cut = !mine && ["length", "cancelled", "interrupted", "error"].includes(message.finish ?? "");
  return (
    <div class="actions">
      {versions > 1 && (
        <span class="versions" role="group" aria-label={`Version ${version + 1} of ${versions}`}>
          <Act icon="left" label="Previous version" off={version === 0} does={() => model.chooseVersion(message.id, -1)} />
          <span>
            {version + 1}/{versions}
          </span>
          <Act
            icon="right"
            label="Next version"
            off={version === versions - 1}
            does={() => model.chooseVersion(message.id, 1)}
          />
        </span>
      )}
      {!growing && (
        <>
          {message.content && <CopyButton text={message.content} label="Copy message" />}
          <Act icon="edit" label="Edit" does={onEdit} />
          <Act icon="retry" label={mine ? "Answer again" : "Retry"} does={() => void model.retry(message.id)} />
          {cut && message.content && <Act icon="play" label="Continue" does={() => void model.goOn(message.id)} />}
          <Act icon="branch" label="Branch into a new conversation" does={() => model.branch(message.id)} />
        </>
      )}
      {!mine && !growing && <span class="figures">{figures(message)}</span>}
    </div>
  );
}

interface ActProperties {
  icon: IconName;
  label: string;
  off?: boolean;
  does: () => void;
}

function Act({ icon, label, off = false, does }: ActProperties): VNode {
  const name = label.split(" ")[0]!.toLowerCase();
  return (
    <button
      type="button"
      class="icon"
      data-action={name}
      aria-label={label}
      title={label}
      disabled={off}
      onClick={does}
    >
      <Icon name={icon} />
    </button>
  );
}

const ENDINGS: Record<string, string> = {
  length: "cut at the token limit",
  cancelled: "stopped",
  interrupted: "interrupted",
  edited: "edited",
};

/** What came faster than this came in one piece, and says nothing of the speed. */
const SHORTEST_SECONDS = 0.02;

/** What an answer took, in a line. */
export function figures(message: Message): string {
  const parts: string[] = [];
  const { usage } = message;
  if (usage) {
    const generating = usage.seconds - usage.firstTokenSeconds;
    parts.push(`${format.number(usage.generatedTokens)} tokens`);
    if (usage.generatedTokens > 1 && generating > SHORTEST_SECONDS) {
      parts.push(`${format.number((usage.generatedTokens - 1) / generating)} tokens/s`);
    }
    parts.push(`first after ${format.seconds(usage.firstTokenSeconds)}`);
    if (usage.cachedTokens > 0) {
      parts.push(`${format.number(usage.cachedTokens)} of ${format.number(usage.promptTokens)} from the cache`);
    }
  }
  const ending = ENDINGS[message.finish ?? ""];
  if (ending) parts.push(ending);
  return parts.join(" · ");
}

interface EditorProperties {
  text: string;
  action: string;
  onDone: (text: string) => void;
  onCancel: () => void;
}

function Editor({ text, action, onDone, onCancel }: EditorProperties): VNode {
  const [changed, setChanged] = useState(text);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(text.length, text.length);
  }, []);
  useEffect(() => fit(box.current), [changed]);
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") onCancel();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && action === "Send") onDone(changed.trim());
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(changed.trim());
      }}
    >
      <textarea
        ref={box}
        aria-label="Edit message"
        value={changed}
        onInput={(event) => setChanged(event.currentTarget.value)}
        onKeyDown={press}
      />
      <div class="buttons">
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" class="main" disabled={!changed.trim()}>
          {action}
        </button>
      </div>
    </form>
  );
}
