/**
 * The token view: an answer as tokens, each in the colour of its probability. One that is clicked shows what else
 * could have stood there, and the answer can go on from another of them.
 */
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { percent, probability, replaceToken, spell, visible } from "../conversation/tokens";
import type { Alternative, Message, Part, Token } from "../conversation/types";
import type { ChatModel } from "./model";

interface Properties {
  model: ChatModel;
  message: Message;
  part: Part;
}

export function Tokens({ model, message, part }: Properties): VNode {
  const [open, setOpen] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const tokens = message.tokens ?? [];
  const told = tokens.flatMap((token, index) => (token.part === part && token.alternatives.length > 0 ? [index] : []));
  const [focused, setFocused] = useState<number | undefined>(undefined);
  /** The one token that Tab comes to; arrows go on from it. */
  const reachable = focused ?? told[0];

  const element = (index: number) => box.current?.querySelector<HTMLElement>(`[data-token="${index}"]`);
  const close = () => {
    if (open !== null) element(open)?.focus();
    setOpen(null);
  };
  const press = (event: KeyboardEvent, index: number) => {
    const steps = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (event.key === "Enter" || event.key === " ") setOpen(open === index ? null : index);
    else if (event.key === "Escape" && open !== null) close();
    else if (steps !== 0) {
      const next = told[told.indexOf(index) + steps];
      if (next !== undefined) element(next)?.focus();
      setOpen(null);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="tokens" ref={box}>
      {tokens.map((token, index) =>
        token.part !== part ? null : token.alternatives.length === 0 ? (
          <span key={index}>{token.text}</span>
        ) : (
          <span
            key={index}
            class={`token ${shade(token)} ${open === index ? "open" : ""}`}
            role="button"
            tabIndex={index === reachable ? 0 : -1}
            aria-expanded={open === index}
            data-token={index}
            title={percent(probability(token))}
            onFocus={() => setFocused(index)}
            onClick={() => setOpen(open === index ? null : index)}
            onKeyDown={(event) => press(event, index)}
          >
            {shown(token)}
          </span>
        ),
      )}
      {open !== null && tokens[open] && (
        <Alternatives
          token={tokens[open]}
          below={() => element(open) ?? null}
          possible={(other) => replaceToken(message, open, other) !== null}
          onClose={close}
          onChoose={(other) => {
            setOpen(null);
            void model.continueFrom(message.id, open, other);
          }}
        />
      )}
    </div>
  );
}

/** A token in running text: its text, with a sign where there would be nothing to click on. */
function shown(token: Token): string {
  if (spell([token]) === null) return visible(token);
  return token.text === "" ? "∅" : token.text.replace(/\n/g, "⏎\n");
}

/** Ten shades: `p0` hardly expected, `p9` nearly certain. */
function shade(token: Token): string {
  return `p${Math.min(9, Math.floor(probability(token) * 10))}`;
}

interface AlternativesProperties {
  token: Token;
  below: () => HTMLElement | null;
  /** Whether an answer can go on from there. */
  possible: (other: Alternative) => boolean;
  onChoose: (other: Alternative) => void;
  onClose: () => void;
}

function Alternatives({ token, below, possible, onChoose, onClose }: AlternativesProperties): VNode {
  const panel = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = panel.current;
    const anchor = below();
    if (!element || !anchor) return;
    const frame = element.offsetParent?.getBoundingClientRect();
    const place = anchor.getClientRects()[0];
    if (!frame || !place) return;
    const most = frame.width - element.offsetWidth;
    element.style.left = `${Math.max(0, Math.min(most, place.left - frame.left))}px`;
    element.style.top = `${place.bottom - frame.top + 6}px`;
    element.scrollIntoView({ block: "nearest" });
  }, [token]);
  const others = token.alternatives.some((other) => same(other, token)) ? [] : [token];
  return (
    <div
      class="alternatives"
      ref={panel}
      role="group"
      aria-label={`Alternatives to ${visible(token)}`}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        onClose();
      }}
    >
      <p>{token.alternatives.some(possible) ? "Continue with another token:" : "What else could stand here:"}</p>
      {[...others, ...token.alternatives].map((other) => {
        const chosen = same(other, token);
        return (
          <button
            type="button"
            class={chosen ? "chosen" : ""}
            disabled={chosen || !possible(other)}
            title={chosen ? "This is what was said" : undefined}
            onClick={() => onChoose(other)}
          >
            <span class="word">{visible(other)}</span>
            <meter min={0} max={1} value={probability(other)} aria-hidden="true" />
            <span class="percent">{percent(probability(other))}</span>
          </button>
        );
      })}
    </div>
  );
}

function same(one: Alternative, other: Alternative): boolean {
  return one.text === other.text && String(one.bytes) === String(other.bytes);
}
