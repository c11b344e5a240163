/** Where a message is written. What is not sent yet is kept, for each conversation. */
import type { RefObject, VNode } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import * as tree from "../conversation/tree";
import { Icon } from "../common/icons";
import { ofBrowser } from "../common/kept";
import type { ChatModel } from "./model";

const TOUCH = "(pointer: coarse)";

function draftKey(conversation: { id: string; messages: unknown[] }): string {
  // A conversation without messages has a new name each time; its draft is the one of "new".
  return `gleed.draft.${conversation.messages.length > 0 ? conversation.id : "new"}`;
}

interface Properties {
  model: ChatModel;
  box: RefObject<HTMLTextAreaElement | null>;
}

export function Composer({ model, box }: Properties): VNode {
  const key = draftKey(model.current);
  const [text, setText] = useState(() => ofBrowser.get(key) ?? "");
  const answering = model.isAnswering();

  const write = (next: string) => {
    setText(next);
    ofBrowser.set(key, next || null);
  };
  const send = () => {
    if (answering || !text.trim()) return;
    void model.send(text.trim());
    write("");
  };
  const press = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    // On a phone Enter is a new line: there is no Shift to press with it.
    const sends = event.key === "Enter" && !event.shiftKey && !matchMedia(TOUCH).matches;
    if (sends || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      send();
    }
    if (event.key === "ArrowUp" && !event.altKey && text === "") {
      const mine = tree.path(model.current).findLast((message) => message.role === "user");
      const edit = mine && document.querySelector<HTMLElement>(`#message-${mine.id} [data-action=edit]`);
      if (edit) {
        event.preventDefault();
        edit.click();
      }
    }
  };
  useLayoutEffect(() => fit(box.current), [text]);
  // With a conversation one wants to write in it; on a phone the keyboard would cover it.
  useEffect(() => {
    if (!matchMedia(TOUCH).matches) box.current?.focus();
  }, []);

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        id="composer"
        ref={box}
        rows={1}
        aria-label="Message"
        placeholder={`Message ${model.modelOf(model.current) || "the model"}`}
        value={text}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={press}
      />
      {answering ? (
        <button type="button" class="round" aria-label="Stop" title="Stop (Esc)" onClick={() => model.stop()}>
          <Icon name="stop" />
        </button>
      ) : (
        <button type="submit" class="round" aria-label="Send" title="Send (Enter)" disabled={!text.trim()}>
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}

/** Makes a text box as high as its text; the style sheet says how high at most. */
export function fit(box: HTMLTextAreaElement | null): void {
  if (!box) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}
