/**
 * Tokens of an answer and the way from one of them to another answer: the text before it, another token in its place,
 * and on from there. Tokens are bytes, and a character may be spread over several of them.
 */
import type { Alternative, Message, Part, Token } from "./types";

const encoder = new TextEncoder();

export function tokenBytes(token: Alternative): Uint8Array {
  return token.bytes ? Uint8Array.from(token.bytes) : encoder.encode(token.text);
}

/** The text that tokens spell; null when they end or break within a character. */
export function spell(tokens: readonly Alternative[]): string | null {
  const bytes = tokens.flatMap((token) => [...tokenBytes(token)]);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** An answer cut before a token, with another one in its place: what is to be continued. */
export interface Continuation {
  content: string;
  reasoning: string;
  tokens: Token[];
}

/** The answer up to token `index`, which is replaced by `other`; null when that is no text (half a character). */
export function replaceToken(message: Message, index: number, other: Alternative): Continuation | null {
  const tokens = message.tokens ?? [];
  const replaced = tokens[index];
  if (!replaced) return null;
  const kept = [...tokens.slice(0, index), { ...other, part: replaced.part, alternatives: replaced.alternatives }];
  if (replaced.part === "reasoning") {
    const reasoning = textOf(message.reasoning, tokens, kept, "reasoning");
    return reasoning === null ? null : { content: "", reasoning, tokens: kept };
  }
  const content = textOf(message.content, tokens, kept, "content");
  return content === null ? null : { content, reasoning: message.reasoning, tokens: kept };
}

/**
 * What `kept` spells in one part of an answer. Where the server left out what the model said around that part (white
 * space after its thoughts, a mark), the whole part's tokens spell more than its text: what comes before it is left
 * out here too.
 */
function textOf(text: string, all: readonly Token[], kept: readonly Token[], part: Part): string | null {
  const spelled = spell(kept.filter((token) => token.part === part));
  if (spelled === null) return null;
  const whole = spell(all.filter((token) => token.part === part)) ?? "";
  const start = Math.max(0, whole.indexOf(text));
  return spelled.slice(start);
}

/** Probability of a token, 0 to 1. */
export function probability(token: Alternative): number {
  return Math.min(1, Math.exp(token.logprob));
}

/** A probability for people: 3 digits are enough, and what is not zero never reads as zero. */
export function percent(value: number): string {
  const percents = value * 100;
  if (percents >= 99.95) return "100 %";
  if (percents >= 10) return `${percents.toFixed(1)} %`;
  if (percents >= 0.1) return `${percents.toFixed(2)} %`;
  return percents < 0.001 ? "< 0.001 %" : `${percents.toFixed(3)} %`;
}

/** A token as people see it: white space and what is no character made visible. */
export function visible(token: Alternative): string {
  if (spell([token]) === null) return [...tokenBytes(token)].map((byte) => `‹${byte.toString(16)}›`).join("");
  if (token.text === "") return "∅";
  return token.text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣");
}
