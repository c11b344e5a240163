import assert from "node:assert/strict";
import test from "node:test";
import type { Piece, Question } from "../../src/api/chat";
import { ApiError } from "../../src/api/client";
import { ChatModel, type Outside } from "../../src/chat/model";
import { MemoryStore } from "../../src/conversation/store";
import * as tree from "../../src/conversation/tree";
import type { Token } from "../../src/conversation/types";

function piece(changes: Partial<Piece>): Piece {
  return { content: "", reasoning: "", tokens: [], ...changes };
}

function token(text: string): Token {
  const alternatives = [text, " other"].map((one) => ({ text: one, bytes: null, logprob: -1 }));
  return { text, bytes: null, logprob: -1, part: "content", alternatives };
}

/** A server that answers with what it was asked, word by word, and waits for `go` after each. */
class FakeServer implements Outside {
  store = new MemoryStore();
  pictureEvery = 0;
  keepEvery = 0;
  questions: Question[] = [];
  refuse: Error | null = null;
  held = false;
  private waiting: (() => void)[] = [];

  models = async (): Promise<string[]> => {
    if (this.refuse) throw this.refuse;
    return ["first", "second"];
  };

  answer = async function* (this: FakeServer, question: Question, signal: AbortSignal): AsyncGenerator<Piece> {
    this.questions.push(question);
    if (this.refuse) throw this.refuse;
    for (const text of ["re:", ` ${question.messages.at(-1)?.content}`, "."]) {
      if (this.held && !signal.aborted) {
        await new Promise<void>((go, stop) => {
          this.waiting.push(go);
          signal.addEventListener("abort", () => stop(new Error("aborted")));
        });
      }
      if (signal.aborted) throw new Error("aborted");
      yield piece({ content: text, tokens: question.tokens ? [token(text)] : [] });
    }
    yield piece({ finish: "stop", usage: { promptTokens: 9, cachedTokens: 4, generatedTokens: 3 } });
  }.bind(this);

  /** Lets a word pass, as soon as one waits. */
  async go(): Promise<void> {
    while (this.waiting.length === 0) await new Promise((done) => setTimeout(done));
    this.waiting.shift()!();
  }
}

function setUp(): { server: FakeServer; model: ChatModel } {
  const server = new FakeServer();
  return { server, model: new ChatModel(server) };
}

function read(model: ChatModel): string[] {
  return tree.path(model.current).map((message) => message.content);
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((done) => setTimeout(done));
}

test("a message, its answer, and both in the store", async () => {
  const { server, model } = setUp();
  await model.send("hi");
  assert.deepEqual(read(model), ["hi", "re: hi."]);
  const answer = tree.path(model.current)[1]!;
  assert.equal(answer.finish, "stop");
  assert.equal(answer.model, "first");
  assert.equal(answer.usage?.cachedTokens, 4);
  await model.keep();
  assert.deepEqual(await server.store.all(), [model.current]);
  assert.equal(model.isAnswering(), false);
});

test("an edit and a retry add versions and lose nothing", async () => {
  const { model } = setUp();
  await model.send("a");
  const [question, answer] = tree.path(model.current);
  await model.edit(question!.id, "b");
  assert.deepEqual(read(model), ["b", "re: b."]);
  await model.retry(tree.path(model.current)[1]!.id);
  assert.deepEqual(read(model), ["b", "re: b."]);
  assert.equal(model.current.messages.length, 5);
  model.chooseVersion(tree.path(model.current)[0]!.id, -1);
  assert.deepEqual(tree.path(model.current).map((message) => message.id), [question!.id, answer!.id]);
});

test("stopped text stays, and can go on", async () => {
  const { server, model } = setUp();
  server.held = true;
  const sending = model.send("a");
  await server.go();
  await until(() => read(model)[1] === "re:");
  model.stop();
  await sending;
  const answer = tree.path(model.current)[1]!;
  assert.deepEqual([answer.content, answer.finish, answer.error], ["re:", "cancelled", undefined]);
  server.held = false;
  await model.goOn(answer.id);
  assert.deepEqual(read(model), ["a", "re:re: re:."]);
  assert.deepEqual(server.questions[1]!.messages.map((message) => message.content), ["a", "re:"]);
  assert.equal(tree.path(model.current)[1]!.finish, "stop");
});

test("a new answer in the same conversation stops the one that runs", async () => {
  const { server, model } = setUp();
  server.held = true;
  const first = model.send("a");
  await server.go();
  await until(() => read(model)[1] === "re:");
  server.held = false;
  await model.retry(tree.path(model.current)[1]!.id);
  await first;
  assert.deepEqual(model.current.messages.map((message) => message.finish), [undefined, "cancelled", "stop"]);
  assert.equal(model.isAnswering(), false);
});

test("errors stand with their message; 401 asks for a key and the answer comes after it", async () => {
  const { server, model } = setUp();
  server.refuse = new ApiError(500, "broken");
  await model.send("a");
  assert.deepEqual(tree.path(model.current).map((message) => message.error), [undefined, "broken"]);
  assert.equal(model.keyNeeded, false);
  model.start();
  server.refuse = new ApiError(401, "key?");
  await model.send("b");
  assert.equal(model.keyNeeded, true);
  server.refuse = null;
  await model.keyGiven();
  assert.deepEqual(read(model), ["b", "re: b."]);
  assert.equal(model.keyNeeded, false);
  assert.equal(tree.path(model.current)[1]!.error, undefined);
});

test("another token: a version that begins alike", async () => {
  const { server, model } = setUp();
  model.setTokenView(true);
  await model.send("a");
  const answer = tree.path(model.current)[1]!;
  assert.equal(answer.tokens?.length, 3);
  await model.continueFrom(answer.id, 1, { text: " other", bytes: null, logprob: -1 });
  assert.deepEqual(read(model), ["a", "re: otherre: re: other."]);
  assert.equal(server.questions[1]!.messages.at(-1)?.content, "re: other");
  assert.equal(tree.path(model.current)[1]!.tokens?.length, 5);
  assert.equal(tree.versions(model.current, answer.id).length, 2);
  // Text without tokens stands among them as a piece of its own.
  model.setTokenView(false);
  await model.goOn(tree.path(model.current)[1]!.id);
  const tokens = tree.path(model.current)[1]!.tokens!;
  assert.equal(tokens.map((one) => one.text).join(""), read(model)[1]);
  assert.equal(tokens.at(-1)!.alternatives.length, 0);
});

test("what was kept is there again; what was growing then is interrupted", async () => {
  const { server, model } = setUp();
  server.held = true;
  const sending = model.send("a");
  await server.go();
  await until(() => read(model)[1] === "re:");
  await model.keep();
  const again = new ChatModel(server);
  await again.load();
  again.open(model.current.id);
  assert.equal(tree.path(again.current)[1]!.finish, "interrupted");
  assert.deepEqual(read(again), ["a", "re:"]);
  assert.deepEqual(model.unkept().map((one) => one.id), [model.current.id]);
  model.stop();
  await sending;
  // A tab that answers does not take over what another one knows of the same answer.
  await model.load();
  assert.equal(tree.path(model.current)[1]!.finish, "cancelled");
});

test("a store that fails is reported, and the conversation goes on", async () => {
  const { server, model } = setUp();
  server.store.put = async () => Promise.reject(new Error("disk full"));
  await model.send("a");
  await model.keep();
  assert.match(model.problem ?? "", /disk full/);
  assert.deepEqual(read(model), ["a", "re: a."]);
});

test("settings: of this conversation and of those after it", async () => {
  const { server, model } = setUp();
  model.set({ system: "s", model: "second", seed: 1 });
  await model.send("a");
  assert.equal(server.questions[0]!.model, "second");
  model.start();
  assert.deepEqual(model.current.settings, { system: "s", model: "second", seed: 1 });
  model.set({ system: "", model: "gone" });
  await model.send("b");
  assert.equal(server.questions[1]!.model, "first", "a model that is gone was asked");
  assert.equal(model.conversations.at(-1)!.settings.system, "s");
});

test("deleting stops the answer and empties the store", async () => {
  const { server, model } = setUp();
  server.held = true;
  const sending = model.send("a");
  await server.go();
  model.remove(model.current.id);
  await sending;
  await model.keep();
  assert.deepEqual(await server.store.all(), []);
  assert.equal(model.conversations.length, 0);
  assert.equal(model.current.messages.length, 0);
});
