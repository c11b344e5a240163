/**
 * A conversation is a tree: a message that was edited or asked for again has versions, each with what followed it. All
 * functions here are pure, and give a new conversation instead of changing the old one.
 */
import type { Conversation, Message, Settings } from "./types";

/** The name in `chosen` for messages without a parent. */
export const ROOT = "root";

let last = 0;

/** A name that no other message of this browser has. Not `crypto.randomUUID`, which plain http on a network lacks. */
export function newId(): string {
  last = (last + 1) % 1296;
  const random = crypto.getRandomValues(new Uint32Array(2));
  return Date.now().toString(36) + last.toString(36).padStart(2, "0") + random[0]!.toString(36) + random[1]!.toString(36);
}

export function newConversation(settings: Settings, now = Date.now()): Conversation {
  return { id: newId(), name: "", created: now, updated: now, settings, messages: [], chosen: {} };
}

/** The messages that have `parent` above them: versions of one message, oldest first. */
export function children(conversation: Conversation, parent: string | null): Message[] {
  return conversation.messages.filter((message) => message.parent === parent);
}

/** The messages being read, from the first to the last. */
export function path(conversation: Conversation): Message[] {
  const below = new Map<string | null, Message[]>();
  for (const message of conversation.messages) {
    const siblings = below.get(message.parent);
    if (siblings) siblings.push(message);
    else below.set(message.parent, [message]);
  }
  const messages: Message[] = [];
  const seen = new Set<string>();
  let parent: string | null = null;
  for (;;) {
    const versions: Message[] = below.get(parent) ?? [];
    const wanted: string | undefined = conversation.chosen[parent ?? ROOT];
    const next: Message | undefined = versions.find((message) => message.id === wanted) ?? versions.at(-1);
    if (!next || seen.has(next.id)) return messages;
    messages.push(next);
    seen.add(next.id);
    parent = next.id;
  }
}

export function find(conversation: Conversation, id: string): Message | undefined {
  return conversation.messages.find((message) => message.id === id);
}

/** All versions of a message, itself among them, oldest first. */
export function versions(conversation: Conversation, id: string): Message[] {
  const message = find(conversation, id);
  return message ? children(conversation, message.parent) : [];
}

/** A conversation with one more message, which is the one being read. */
export function add(conversation: Conversation, message: Message): Conversation {
  return {
    ...conversation,
    updated: Math.max(conversation.updated, message.created),
    messages: [...conversation.messages, message],
    chosen: { ...conversation.chosen, [message.parent ?? ROOT]: message.id },
  };
}

/** A conversation in which a message is changed in place. */
export function change(conversation: Conversation, id: string, changes: Partial<Message>): Conversation {
  return {
    ...conversation,
    messages: conversation.messages.map((message) => (message.id === id ? { ...message, ...changes } : message)),
  };
}

/** Reads the version `steps` further (or back, when negative); stays at the ends. */
export function chooseVersion(conversation: Conversation, id: string, steps: number): Conversation {
  const all = versions(conversation, id);
  const index = all.findIndex((message) => message.id === id);
  const next = all[Math.max(0, Math.min(all.length - 1, index + steps))];
  if (!next) return conversation;
  return { ...conversation, chosen: { ...conversation.chosen, [next.parent ?? ROOT]: next.id } };
}

/** The messages from the first down to `id`, whether or not they are being read. */
export function lineage(conversation: Conversation, id: string): Message[] {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const line: Message[] = [];
  let next: Message | undefined = byId.get(id);
  while (next && line.length <= conversation.messages.length) {
    line.unshift(next);
    next = next.parent === null ? undefined : byId.get(next.parent);
  }
  return line;
}

/** A conversation of its own from the messages down to `id`: a branch to go another way. */
export function branch(conversation: Conversation, id: string, now = Date.now()): Conversation {
  const branched = newConversation({ ...conversation.settings }, now);
  let parent: string | null = null;
  branched.messages = lineage(conversation, id).map((message) => {
    const copy: Message = { ...message, id: newId(), parent };
    parent = copy.id;
    return copy;
  });
  branched.name = `${title(conversation)} (branch)`;
  return branched;
}

/** What a conversation is called: its name, or how it begins. */
export function title(conversation: Conversation): string {
  if (conversation.name) return conversation.name;
  const first = path(conversation)[0]?.content.trim().split("\n")[0]?.trim() ?? "";
  if (!first) return "New conversation";
  const characters = [...first];
  return characters.length > 60 ? `${characters.slice(0, 59).join("")}…` : first;
}

/** Whether all words of `query` occur in the name or the messages, in whatever case. */
export function matches(conversation: Conversation, query: string): boolean {
  const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [title(conversation), ...conversation.messages.map((message) => message.content)]
    .join("\n")
    .toLocaleLowerCase();
  return words.every((word) => text.includes(word));
}
