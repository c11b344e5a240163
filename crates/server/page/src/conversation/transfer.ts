/**
 * Conversations as files: JSON, which can be read back, and Markdown for people. What is read back may be of any
 * author: every field is checked, and nothing but known fields is taken over.
 */
import { newId, path, title } from "./tree";
import type { Alternative, Conversation, Message, Settings, Token, Usage } from "./types";

const FORMAT = "gleed-conversations";

export function toJson(conversations: readonly Conversation[]): string {
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

export function toMarkdown(conversation: Conversation): string {
  const parts = [`# ${title(conversation)}`];
  if (conversation.settings.system) parts.push(`## System\n\n${conversation.settings.system}`);
  for (const message of path(conversation)) {
    const who = message.role === "user" ? "You" : (message.model ?? "Assistant");
    const thoughts = message.reasoning ? `${quote(message.reasoning)}\n\n` : "";
    const error = message.error ? `\n\n*${message.error}*` : "";
    parts.push(`## ${who}\n\n${thoughts}${message.content}${error}`);
  }
  return `${parts.join("\n\n")}\n`;
}

function quote(text: string): string {
  return text
    .trim()
    .split("\n")
    .map((line) => `> ${line}`)
    .join("\n");
}

/** A name for a file: letters and digits of the title. */
export function fileName(conversation: Conversation, extension: string): string {
  const words = title(conversation).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return `${words.slice(0, 8).join("-") || "conversation"}.${extension}`;
}

/** The conversations of a file that `toJson` wrote, under new names, so that nothing here is overwritten. */
export function fromJson(text: string): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw new Error(`This file is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (!isObject(file) || file.format !== FORMAT) {
    throw new Error(`This file is not an export of conversations: its "format" is not "${FORMAT}".`);
  }
  if (file.version !== 1) throw new Error(`This file has version ${String(file.version)}; version 1 can be read.`);
  if (!Array.isArray(file.conversations)) throw new Error(`This file has no list of "conversations".`);
  return file.conversations.map((value, index) => readConversation(value, `conversations[${index}]`));
}

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fields(value: unknown, where: string): Fields {
  if (!isObject(value)) throw new Error(`${where} is not an object.`);
  return value;
}

function string(value: unknown, where: string): string {
  if (typeof value !== "string") throw new Error(`${where} is not a string.`);
  return value;
}

function number(value: unknown, where: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`${where} is not a number.`);
  return value;
}

/** A field that may be absent, read by `read` when it is there. */
function optional<K extends string, T>(
  from: Fields,
  key: K,
  where: string,
  read: (value: unknown, where: string) => T,
): { [P in K]?: T } {
  const value = from[key];
  if (value === undefined || value === null) return {};
  return { [key]: read(value, `${where}.${key}`) } as { [P in K]?: T };
}

function list<T>(value: unknown, where: string, read: (value: unknown, where: string) => T): T[] {
  if (!Array.isArray(value)) throw new Error(`${where} is not a list.`);
  return value.map((entry, index) => read(entry, `${where}[${index}]`));
}

function readConversation(value: unknown, where: string): Conversation {
  const from = fields(value, where);
  const messages = list(from.messages, `${where}.messages`, readMessage);
  const names = new Map(messages.map((message) => [message.id, newId()]));
  if (names.size < messages.length) throw new Error(`${where}: two messages have the same id.`);
  const rename = (id: string): string => {
    const name = names.get(id);
    if (!name) throw new Error(`${where}: no message has the id ${JSON.stringify(id)}.`);
    return name;
  };
  const written = new Set<string>();
  for (const message of messages) {
    // A parent stands before its children: so there is no ring.
    if (message.parent !== null && !written.has(message.parent)) {
      throw new Error(`${where}: message ${JSON.stringify(message.id)} comes before the one it answers.`);
    }
    written.add(message.id);
  }
  const chosen: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [parent, child] of Object.entries(fields(from.chosen ?? {}, `${where}.chosen`))) {
    chosen[parent === "root" ? parent : rename(parent)] = rename(string(child, `${where}.chosen`));
  }
  return {
    id: newId(),
    name: string(from.name ?? "", `${where}.name`),
    created: number(from.created, `${where}.created`),
    updated: number(from.updated, `${where}.updated`),
    settings: readSettings(from.settings ?? {}, `${where}.settings`),
    messages: messages.map((message) => ({
      ...message,
      id: rename(message.id),
      parent: message.parent === null ? null : rename(message.parent),
    })),
    chosen: { ...chosen },
  };
}

function readSettings(value: unknown, where: string): Settings {
  const from = fields(value, where);
  return {
    system: string(from.system ?? "", `${where}.system`),
    ...optional(from, "model", where, string),
    ...optional(from, "temperature", where, number),
    ...optional(from, "topP", where, number),
    ...optional(from, "topK", where, number),
    ...optional(from, "minP", where, number),
    ...optional(from, "maxTokens", where, number),
    ...optional(from, "seed", where, number),
    ...optional(from, "reasoningEffort", where, string),
  };
}

function readMessage(value: unknown, where: string): Message {
  const from = fields(value, where);
  const role = from.role;
  if (role !== "user" && role !== "assistant") throw new Error(`${where}.role is neither "user" nor "assistant".`);
  return {
    id: string(from.id, `${where}.id`),
    parent: from.parent === null ? null : string(from.parent, `${where}.parent`),
    role,
    content: string(from.content, `${where}.content`),
    reasoning: string(from.reasoning ?? "", `${where}.reasoning`),
    created: number(from.created, `${where}.created`),
    ...optional(from, "model", where, string),
    ...optional(from, "finish", where, string),
    ...optional(from, "error", where, string),
    ...optional(from, "usage", where, readUsage),
    ...optional(from, "tokens", where, (tokens, place) => list(tokens, place, readToken)),
  };
}

function readUsage(value: unknown, where: string): Usage {
  const from = fields(value, where);
  return {
    promptTokens: number(from.promptTokens, `${where}.promptTokens`),
    cachedTokens: number(from.cachedTokens, `${where}.cachedTokens`),
    generatedTokens: number(from.generatedTokens, `${where}.generatedTokens`),
    firstTokenSeconds: number(from.firstTokenSeconds, `${where}.firstTokenSeconds`),
    seconds: number(from.seconds, `${where}.seconds`),
  };
}

function readAlternative(value: unknown, where: string): Alternative {
  const from = fields(value, where);
  const bytes = from.bytes == null ? null : list(from.bytes, `${where}.bytes`, number);
  return { text: string(from.text, `${where}.text`), bytes, logprob: number(from.logprob, `${where}.logprob`) };
}

function readToken(value: unknown, where: string): Token {
  const from = fields(value, where);
  return {
    ...readAlternative(value, where),
    part: from.part === "reasoning" ? "reasoning" : "content",
    alternatives: list(from.alternatives, `${where}.alternatives`, readAlternative),
  };
}
