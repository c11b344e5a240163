import assert from "node:assert/strict";
import test from "node:test";
import { MemoryStore } from "../../src/conversation/store";
import * as tree from "../../src/conversation/tree";
import { fileName, fromJson, toJson, toMarkdown } from "../../src/conversation/transfer";
import type { Conversation, Message } from "../../src/conversation/types";
import { Random } from "./random";

let clock = 1000;

function message(parent: string | null, content: string, role: Message["role"] = "user"): Message {
  return { id: tree.newId(), parent, role, content, reasoning: "", created: clock++ };
}

function contents(conversation: Conversation): string[] {
  return tree.path(conversation).map((one) => one.content);
}

/** a → b → c, and beside b another b2 with nothing below it. */
function sample(): { conversation: Conversation; ids: Record<string, string> } {
  const a = message(null, "a");
  const b = message(a.id, "b", "assistant");
  const c = message(b.id, "c");
  const b2 = message(a.id, "b2", "assistant");
  let conversation = tree.newConversation({ system: "" }, 0);
  for (const one of [a, b, c, b2]) conversation = tree.add(conversation, one);
  return { conversation, ids: { a: a.id, b: b.id, c: c.id, b2: b2.id } };
}

test("what was added last is what is read", () => {
  const { conversation } = sample();
  assert.deepEqual(contents(conversation), ["a", "b2"]);
});

test("versions come back with what followed them", () => {
  const { conversation, ids } = sample();
  const back = tree.chooseVersion(conversation, ids.b2!, -1);
  assert.deepEqual(contents(back), ["a", "b", "c"]);
  assert.deepEqual(contents(tree.chooseVersion(back, ids.b!, 1)), ["a", "b2"]);
  assert.deepEqual(contents(tree.chooseVersion(back, ids.b!, -5)), ["a", "b", "c"]);
  assert.deepEqual(contents(conversation), ["a", "b2"], "the old conversation was changed");
});

test("a branch is a conversation of its own", () => {
  const { conversation, ids } = sample();
  const branch = tree.branch(conversation, ids.c!);
  assert.deepEqual(contents(branch), ["a", "b", "c"]);
  assert.notEqual(branch.id, conversation.id);
  const known = new Set(conversation.messages.map((one) => one.id));
  assert.ok(branch.messages.every((one) => !known.has(one.id)));
});

test("random trees: the path is a way from the first message down to one without answers", () => {
  const random = new Random(3);
  for (let round = 0; round < 200; round++) {
    let conversation = tree.newConversation({ system: "" });
    for (let count = random.below(30); count > 0; count--) {
      const parent = random.below(4) === 0 ? null : (random.pick([null, ...conversation.messages])?.id ?? null);
      conversation = tree.add(conversation, message(parent, `m${count}`));
      if (random.below(3) === 0) {
        conversation = tree.chooseVersion(conversation, random.pick(conversation.messages).id, random.below(5) - 2);
      }
    }
    const path = tree.path(conversation);
    path.forEach((one, index) => assert.equal(one.parent, path[index - 1]?.id ?? null));
    assert.equal(tree.children(conversation, path.at(-1)?.id ?? null).length, 0);
    for (const one of conversation.messages) {
      assert.equal(tree.lineage(conversation, one.id).at(-1), one);
      assert.ok(tree.versions(conversation, one.id).includes(one));
    }
  }
});

test("names and search", () => {
  let conversation = tree.newConversation({ system: "" });
  assert.equal(tree.title(conversation), "New conversation");
  conversation = tree.add(conversation, message(null, `  ${"ä".repeat(80)}\nsecond line`));
  assert.equal(tree.title(conversation), `${"ä".repeat(59)}…`);
  assert.ok(tree.matches(conversation, "SECOND ää"));
  assert.ok(!tree.matches(conversation, "second third"));
  assert.equal(tree.title({ ...conversation, name: "Named" }), "Named");
});

test("export and import: the same conversation under new names", () => {
  const { conversation } = sample();
  const told: Conversation = {
    ...conversation,
    name: "N",
    settings: { system: "s", temperature: 0.5, seed: 0, reasoningEffort: "low" },
    messages: conversation.messages.map((one) => ({
      ...one,
      finish: "stop",
      usage: { promptTokens: 1, cachedTokens: 2, generatedTokens: 3, firstTokenSeconds: 0.1, seconds: 0.2 },
      tokens: [{ text: "x", bytes: [120], logprob: -0.5, part: "content", alternatives: [{ text: "y", bytes: null, logprob: -1 }] }],
    })),
  };
  const [read] = fromJson(toJson([told]));
  const bare = (one: Conversation) => ({
    ...one,
    id: "",
    chosen: {},
    messages: one.messages.map((each) => ({ ...each, id: "", parent: "" })),
  });
  assert.deepEqual(bare(read!), bare(told));
  assert.deepEqual(contents(read!), contents(told));
  assert.notEqual(read!.id, told.id);
  assert.ok(read!.messages.every((one) => !told.messages.some((other) => other.id === one.id)));
});

test("files that are no exports are refused with the place", () => {
  const good = JSON.parse(toJson([sample().conversation])) as { conversations: Record<string, unknown>[] };
  const refused = (change: (file: typeof good) => void, expected: RegExp) => {
    const file = structuredClone(good);
    change(file);
    assert.throws(() => fromJson(JSON.stringify(file)), expected);
  };
  const messages = (file: typeof good) => file.conversations[0]!.messages as Record<string, unknown>[];
  assert.throws(() => fromJson("{"), /not JSON/);
  assert.throws(() => fromJson("[]"), /"format"/);
  refused((file) => ((file as Record<string, unknown>).version = 2), /version 2/);
  refused((file) => ((file as Record<string, unknown>).conversations = {}), /list/);
  refused((file) => (messages(file)[1]!.content = 5), /messages\[1\]\.content is not a string/);
  refused((file) => (messages(file)[1]!.role = "system"), /messages\[1\]\.role/);
  refused((file) => (messages(file)[1]!.parent = "nobody"), /comes before the one it answers/);
  refused((file) => (messages(file)[0]!.parent = messages(file)[2]!.id), /comes before/);
  refused((file) => (messages(file)[1]!.id = messages(file)[0]!.id), /same id/);
  refused((file) => (file.conversations[0]!.chosen = { root: "nobody" }), /no message has the id/);
  refused((file) => (file.conversations[0]!.settings = { temperature: "hot" }), /temperature is not a number/);
  refused((file) => (file.conversations[0]!.created = null), /created is not a number/);
});

test("an import takes over known fields only", () => {
  const file = JSON.parse(toJson([sample().conversation])) as { conversations: Record<string, unknown>[] };
  file.conversations[0]!.extra = 1;
  const text = JSON.stringify(file);
  assert.equal("extra" in fromJson(text)[0]!, false);
  assert.throws(() => fromJson(text.replace('"chosen":{', '"chosen":{"__proto__":"x",')), /no message has the id/);
});

test("Markdown for people", () => {
  const { conversation, ids } = sample();
  const changed = tree.change(conversation, ids.b2!, { reasoning: "hm\nso", model: "m", error: "broke" });
  const text = toMarkdown({ ...changed, settings: { system: "Be kind." } });
  assert.equal(text, "# a\n\n## System\n\nBe kind.\n\n## You\n\na\n\n## m\n\n> hm\n> so\n\nb2\n\n*broke*\n");
  assert.equal(fileName({ ...conversation, name: "../../Was *ist* das?" }, "md"), "was-ist-das.md");
  assert.equal(fileName({ ...conversation, name: "/" }, "md"), "conversation.md");
});

test("a store gives back what was put, and no more than a copy", async () => {
  const store = new MemoryStore();
  const { conversation } = sample();
  await store.put(conversation);
  conversation.name = "changed after";
  assert.equal((await store.all())[0]!.name, "");
  await store.put(conversation);
  assert.deepEqual(await store.all(), [conversation]);
  await store.remove(conversation.id);
  assert.deepEqual(await store.all(), []);
});
