/**
 * The state of the chat page and everything that can happen to it, without a single element: the view draws it, tests
 * drive it. Answers go on while another conversation is read; several conversations can be answered at once.
 */
import type { Piece, Question } from "../api/chat";
import { ApiError, reason } from "../api/client";
import type { Store } from "../conversation/store";
import { replaceToken } from "../conversation/tokens";
import * as tree from "../conversation/tree";
import type { Alternative, Conversation, Message, Settings } from "../conversation/types";
import { Growth } from "./growth";

/** Where the model's world ends; tests put their own there. */
export interface Outside {
  store: Store;
  answer: (question: Question, signal: AbortSignal) => AsyncGenerator<Piece>;
  models: () => Promise<string[]>;
  /** Milliseconds between two pictures of a growing answer, and between two copies of it in the store. */
  pictureEvery: number;
  keepEvery: number;
}

export const PICTURE_EVERY = 33;
export const KEEP_EVERY = 1000;

interface Answering {
  message: string;
  abort: AbortController;
}

export class ChatModel {
  /** Latest first. A conversation without a message is not among them. */
  conversations: Conversation[] = [];
  current: Conversation;
  models: string[] = [];
  tokenView = false;
  /** Something that concerns no single message: storage, the list of models. */
  problem: string | null = null;
  /** The server has refused us for want of a key. */
  keyNeeded = false;
  /** Called after something was written into the store or taken out of it. */
  onKept: () => void = () => undefined;

  private answers = new Map<string, Answering>();
  private listeners = new Set<() => void>();
  private dirty = new Set<string>();
  private keepTimer: ReturnType<typeof setTimeout> | undefined;
  private keeping: Promise<void> = Promise.resolve();

  constructor(
    private readonly outside: Outside,
    /** What new conversations begin with. */
    public settings: Settings = { system: "" },
  ) {
    this.current = tree.newConversation({ ...settings });
  }

  /** Calls `listener` after every change, until the function it gives is called. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }

  // What is kept.

  /** Reads what the store has, as another tab may have left it; what is being answered here stays as it is here. */
  async load(): Promise<void> {
    try {
      const kept = await this.outside.store.all();
      const ours = this.conversations.filter((ours) => this.isAnswering(ours.id) || this.dirty.has(ours.id));
      const oursById = new Map(ours.map((conversation) => [conversation.id, conversation]));
      this.conversations = [...kept.filter((one) => !oursById.has(one.id)).map(interrupted), ...ours];
      this.sort();
      const current = this.conversations.find((conversation) => conversation.id === this.current.id);
      if (current) this.current = current;
    } catch (error) {
      this.problem = `The conversations kept in this browser cannot be read: ${reason(error)}`;
    }
    this.changed();
  }

  private sort(): void {
    this.conversations.sort((a, b) => b.updated - a.updated);
  }

  /** Puts a changed conversation in the place of the old one, and soon into the store. */
  private update(conversation: Conversation, now = false): void {
    if (this.current.id === conversation.id) this.current = conversation;
    this.conversations = [conversation, ...this.conversations.filter((other) => other.id !== conversation.id)];
    this.sort();
    this.dirty.add(conversation.id);
    if (now) void this.keep();
    else this.keepTimer ??= setTimeout(() => void this.keep(), this.outside.keepEvery);
    this.changed();
  }

  /** Writes what has changed into the store; done when all of it is there. */
  keep(): Promise<void> {
    clearTimeout(this.keepTimer);
    this.keepTimer = undefined;
    const changed = this.conversations.filter((conversation) => this.dirty.has(conversation.id));
    this.dirty.clear();
    this.keeping = this.keeping.then(async () => {
      try {
        for (const conversation of changed) await this.outside.store.put(conversation);
        if (changed.length > 0) this.onKept();
      } catch (error) {
        this.report(`This browser does not keep the conversation: ${reason(error)} Export it to keep it.`);
      }
    });
    return this.keeping;
  }

  /** What the store may not have yet, for a page that has no time left to wait for it. */
  unkept(): Conversation[] {
    return this.conversations.filter((one) => this.dirty.has(one.id) || this.isAnswering(one.id));
  }

  /** Takes in conversations that stand here as they are: of a file, or newer than what is in the store. */
  restore(conversations: Conversation[]): void {
    for (const conversation of conversations) this.update(interrupted(conversation));
    void this.keep();
  }

  // Conversations.

  start(): void {
    this.current = tree.newConversation({ ...this.settings });
    this.changed();
  }

  open(id: string): void {
    const conversation = this.conversations.find((one) => one.id === id);
    if (conversation) this.current = conversation;
    this.changed();
  }

  rename(id: string, name: string): void {
    const conversation = this.conversations.find((one) => one.id === id);
    if (conversation) this.update({ ...conversation, name: name.trim() }, true);
  }

  remove(id: string): void {
    this.answers.get(id)?.abort.abort();
    this.conversations = this.conversations.filter((one) => one.id !== id);
    this.dirty.delete(id);
    this.keeping = this.keeping
      .then(() => this.outside.store.remove(id))
      .then(this.onKept)
      .catch((error: unknown) => this.report(`The conversation could not be deleted: ${reason(error)}`));
    if (this.current.id === id) this.current = this.conversations[0] ?? tree.newConversation({ ...this.settings });
    this.changed();
  }

  /** Adds conversations, of a file for example, and opens the first. */
  insert(conversations: Conversation[]): void {
    this.restore(conversations);
    if (conversations[0]) this.open(conversations[0].id);
  }

  branch(id: string): void {
    this.insert([tree.branch(this.current, id)]);
  }

  chooseVersion(id: string, steps: number): void {
    this.update(tree.chooseVersion(this.current, id, steps), true);
  }

  /** Changes settings of this conversation, and of those that will be started after it. */
  set(settings: Settings): void {
    this.settings = { ...settings };
    if (this.current.messages.length > 0) this.update({ ...this.current, settings }, true);
    else this.current = { ...this.current, settings };
    this.changed();
  }

  setTokenView(on: boolean): void {
    this.tokenView = on;
    this.changed();
  }

  /** Shows a problem that concerns no single message; null takes it away. */
  report(problem: string | null): void {
    this.problem = problem;
    this.changed();
  }

  // The server.

  async loadModels(): Promise<void> {
    try {
      this.models = await this.outside.models();
      this.keyNeeded = false;
    } catch (error) {
      this.failed(error);
      if (!this.keyNeeded) this.problem = reason(error);
    }
    this.changed();
  }

  private failed(error: unknown): void {
    if (error instanceof ApiError && error.status === 401) this.keyNeeded = true;
  }

  /** The model that answers: the one chosen, or the first there is when that is gone. */
  modelOf(conversation: Conversation): string {
    const chosen = conversation.settings.model;
    return chosen && (this.models.includes(chosen) || this.models.length === 0) ? chosen : (this.models[0] ?? "");
  }

  isAnswering(id: string = this.current.id): boolean {
    return this.answers.has(id);
  }

  /** Whether this very message is still growing. */
  isGrowing(message: string): boolean {
    return this.answers.get(this.current.id)?.message === message;
  }

  // What a person can ask for. Every way of asking adds messages; none takes one away.

  async send(text: string): Promise<void> {
    await this.ask(tree.path(this.current).at(-1)?.id ?? null, text);
  }

  /** A message in other words: a version beside it, and for one of ours an answer of its own. */
  async edit(id: string, text: string): Promise<void> {
    const message = tree.find(this.current, id);
    if (!message) return;
    if (message.role === "user") return this.ask(message.parent, text);
    const { tokens: _, error: __, usage: ___, ...rest } = message;
    this.update(
      tree.add(this.current, { ...rest, id: tree.newId(), content: text, created: Date.now(), finish: "edited" }),
      true,
    );
  }

  /** Another answer to the same message. */
  async retry(id: string): Promise<void> {
    const message = tree.find(this.current, id);
    if (!message) return;
    await this.begin(message.role === "user" ? message.id : message.parent);
  }

  /** Goes on with an answer that was stopped or cut off. */
  async goOn(id: string): Promise<void> {
    const message = tree.find(this.current, id);
    if (!message) return;
    const { finish: _, error: __, ...open } = message;
    this.stop();
    const messages = this.current.messages.map((one) => (one.id === id ? open : one));
    this.update({ ...this.current, messages });
    await this.run(this.current.id, open);
  }

  /** Another answer that is the same up to token `index`, has `other` there, and goes on as the model likes. */
  async continueFrom(id: string, index: number, other: Alternative): Promise<void> {
    const message = tree.find(this.current, id);
    const continuation = message && replaceToken(message, index, other);
    if (continuation) await this.begin(message.parent, continuation);
  }

  stop(): void {
    this.answers.get(this.current.id)?.abort.abort();
  }

  private async ask(parent: string | null, text: string): Promise<void> {
    const id = tree.newId();
    this.update(
      tree.add(this.current, { id, parent, role: "user", content: text, reasoning: "", created: Date.now() }),
      true,
    );
    await this.begin(id);
  }

  /** Adds an empty answer, or the beginning of one, below `parent`, and lets it grow. */
  private async begin(parent: string | null, beginning: Partial<Message> = {}): Promise<void> {
    this.stop();
    const message: Message = {
      id: tree.newId(),
      parent,
      role: "assistant",
      content: "",
      reasoning: "",
      created: Date.now(),
      ...beginning,
    };
    this.update(tree.add(this.current, message));
    await this.run(this.current.id, message);
  }

  /** Lets `message` grow until the answer ends, in one way or another. */
  private async run(conversation: string, message: Message): Promise<void> {
    const abort = new AbortController();
    const answering: Answering = { message: message.id, abort };
    this.answers.set(conversation, answering);
    const growth = new Growth(message, this.tokenView);
    let picture: ReturnType<typeof setTimeout> | undefined;
    const show = (changes: Partial<Message> = {}, now = false) => {
      clearTimeout(picture);
      picture = undefined;
      const owner = this.conversations.find((one) => one.id === conversation);
      if (owner) this.update(tree.change(owner, message.id, { ...growth.changes(), ...changes }), now);
    };
    const end: Partial<Message> = {};
    try {
      if (this.models.length === 0) this.models = await this.outside.models();
      const owner = this.conversations.find((one) => one.id === conversation)!;
      end.model = this.modelOf(owner);
      show({ model: end.model });
      const question: Question = {
        model: end.model,
        settings: owner.settings,
        messages: tree.lineage(owner, message.id).filter((one) => one.id !== message.id || growth.hasBeginning),
        tokens: growth.withTokens,
      };
      for await (const piece of this.outside.answer(question, abort.signal)) {
        growth.add(piece);
        picture ??= setTimeout(() => show(), this.outside.pictureEvery);
      }
      end.finish = growth.finish ?? "stop";
    } catch (error) {
      if (abort.signal.aborted) {
        end.finish = "cancelled";
      } else {
        end.finish = "error";
        end.error = reason(error);
        this.failed(error);
      }
    }
    if (this.answers.get(conversation) === answering) this.answers.delete(conversation);
    show(end, true);
  }

  /** A key was given: what failed for want of it is asked for again. */
  async keyGiven(): Promise<void> {
    this.keyNeeded = false;
    await this.loadModels();
    if (this.keyNeeded) return;
    const last = tree.path(this.current).at(-1);
    if (last?.role === "assistant" && last.error && last.content === "") await this.goOn(last.id);
  }
}

/** A conversation as it was kept: an answer that was growing then does so no more. */
function interrupted(conversation: Conversation): Conversation {
  if (conversation.messages.every((message) => message.role === "user" || message.finish)) return conversation;
  return {
    ...conversation,
    messages: conversation.messages.map((message) =>
      message.role === "user" || message.finish ? message : { ...message, finish: "interrupted" },
    ),
  };
}
