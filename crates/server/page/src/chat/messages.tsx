/** The messages being read. The end stays in view while an answer grows, unless the reader has scrolled away. */
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import * as tree from "../conversation/tree";
import { Coal } from "../common/icons";
import { MessageView } from "./message";
import type { ChatModel } from "./model";

/** Nearer than this to the end, in pixels, counts as being there. */
const NEAR = 60;

const SUGGESTIONS = [
  "Tell me a story about a lamplighter and the moon.",
  "Write a function that tells whether a word is a palindrome.",
  "Why is the sky blue? Explain it in three sentences.",
];

interface Properties {
  model: ChatModel;
  onSuggest: (text: string) => void;
}

export function Messages({ model, onSuggest }: Properties): VNode {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const shown = useRef("");
  const messages = tree.path(model.current);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    // Another conversation, or a message just sent: its end is what one wants to see.
    const now = `${model.current.id} ${messages.length}`;
    if (shown.current !== now) atEnd.current = true;
    shown.current = now;
    if (atEnd.current) element.scrollTop = element.scrollHeight;
  });

  return (
    <div
      class="messages"
      ref={box}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR;
      }}
    >
      {messages.length === 0 ? (
        <div class="welcome">
          <Coal />
          <h2>What shall we talk about?</h2>
          <p>Everything stays between this browser and the server that served this page.</p>
          <ul>
            {SUGGESTIONS.map((text) => (
              <li key={text}>
                <button type="button" onClick={() => onSuggest(text)}>
                  {text}
                </button>
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <ol aria-label="Messages">
          {messages.map((message) => {
            const versions = tree.versions(model.current, message.id);
            return (
              <MessageView
                key={message.id}
                model={model}
                message={message}
                growing={model.isGrowing(message.id)}
                tokenView={model.tokenView}
                version={versions.findIndex((one) => one.id === message.id)}
                versions={versions.length}
              />
            );
          })}
        </ol>
      )}
      <div class="offscreen" role="status" aria-live="polite">
        {model.isAnswering() ? "The model is answering." : messages.length > 0 ? "The answer is complete." : ""}
      </div>
    </div>
  );
}
