/**
 * Tokens of an answer and the way from one of them to another answer: the text before it, another token in its place,
 * and on from there. Tokens are bytes, and a character may be spread over several of them.
 */
import type { Alternative, Message, Token } from "./types";

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

/**
 * The answer up to token `index`, which is replaced by `other`; null where it cannot go on from there: from half a
 * character, which is no text, and from within thoughts, since only what is said can be continued.
 */
export function replaceToken(message: Message, index: number, other: Alternative): Continuation | null {
  const tokens = message.tokens ?? [];
  const replaced = tokens[index];
  if (!replaced || replaced.part === "reasoning") return null;
  const kept = [...tokens.slice(0, index), { ...other, part: replaced.part, alternatives: replaced.alternatives }];
  const content = contentOf(message.content, tokens, kept);
  return content === null ? null : { content, reasoning: message.reasoning, tokens: kept };
}

/**
 * What `kept` says. Where the server left out what the model wrote before it spoke (a mark, white space after its
 * thoughts), all tokens spell more than the answer's text: what comes before it is left out here too.
 */
function contentOf(content: string, all: readonly Token[], kept: readonly Token[]): string | null {
  const spoken = (tokens: readonly Token[]) => spell(tokens.filter((token) => token.part === "content"));
  const spelled = spoken(kept);
  if (spelled === null) return null;
  const start = Math.max(0, spoken(all)?.indexOf(content) ?? 0);
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
