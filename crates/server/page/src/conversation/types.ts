/** What a conversation is made of, as it is kept in the browser and written into an export. */

/** A token that could have stood at a place, and its log-probability (natural logarithm). */
export interface Alternative {
  text: string;
  /** UTF-8; null where the server does not say. A token may be half a character. */
  bytes: number[] | null;
  logprob: number;
}

/** A token of an answer with what could have stood in its place, likeliest first. */
export interface Token extends Alternative {
  part: Part;
  alternatives: Alternative[];
}

/** What the model thinks, or what it says. */
export type Part = "reasoning" | "content";

/** Tokens of a request and seconds that an answer took. */
export interface Usage {
  promptTokens: number;
  cachedTokens: number;
  generatedTokens: number;
  firstTokenSeconds: number;
  seconds: number;
}

export interface Message {
  id: string;
  /** The message that this one answers; null for the first of a conversation. */
  parent: string | null;
  role: "user" | "assistant";
  content: string;
  reasoning: string;
  /** Milliseconds since 1970. */
  created: number;
  /** Who answered. */
  model?: string;
  /** Why the answer ended, in the server's words, or "cancelled"; absent while it comes. */
  finish?: string;
  /** What went wrong, as it was said to us. */
  error?: string;
  usage?: Usage;
  /** Kept when the token view was on. */
  tokens?: Token[];
}

/** What is asked of the model; what is absent is left to the server. */
export interface Settings {
  system: string;
  model?: string;
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  maxTokens?: number;
  seed?: number;
  reasoningEffort?: string;
}

export interface Conversation {
  id: string;
  /** The name a person gave it; empty: the first message names it. */
  name: string;
  created: number;
  updated: number;
  settings: Settings;
  /** In the order they were written. Messages with the same parent are versions of one another. */
  messages: Message[];
  /** Of a parent (`ROOT` for none) with several versions below it, the one being read. */
  chosen: Record<string, string>;
}
