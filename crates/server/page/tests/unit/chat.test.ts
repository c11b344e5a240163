import assert from "node:assert/strict";
import test from "node:test";
import { body, PieceReader, type Question } from "../../src/api/chat";
import { ApiError, errorText } from "../../src/api/client";

function question(changes: Partial<Question> = {}): Question {
  return {
    model: "m",
    settings: { system: "" },
    messages: [{ role: "user", content: "hi", reasoning: "" }],
    tokens: false,
    ...changes,
  };
}

test("a request says no more than a person did", () => {
  assert.deepEqual(body(question()), {
    model: "m",
    messages: [{ role: "user", content: "hi" }],
    stream: true,
    stream_options: { include_usage: true },
  });
});

test("settings have the API's names, and zero is a value", () => {
  const settings = { system: "s", temperature: 0, topP: 0.5, topK: 0, minP: 0, maxTokens: 7, seed: 0, reasoningEffort: "none" };
  const request = body(question({ settings, tokens: true }));
  const expected = {
    temperature: 0, top_p: 0.5, top_k: 0, min_p: 0, max_completion_tokens: 7, seed: 0, reasoning_effort: "none",
    logprobs: true, top_logprobs: 10,
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(request[name], value, name);
  assert.deepEqual((request.messages as unknown[])[0], { role: "system", content: "s" });
});

test("an answer that goes on has its thoughts with it, earlier ones have not", () => {
  const messages = [
    { role: "user" as const, content: "a", reasoning: "" },
    { role: "assistant" as const, content: "b", reasoning: "old" },
    { role: "user" as const, content: "c", reasoning: "" },
    { role: "assistant" as const, content: "d", reasoning: "new" },
  ];
  const request = body(question({ messages }));
  assert.equal(request.continue_final_message, true);
  assert.deepEqual(request.messages, [
    { role: "user", content: "a" },
    { role: "assistant", content: "b" },
    { role: "user", content: "c" },
    { role: "assistant", content: "d", reasoning_content: "new" },
  ]);
});

function event(delta: object, tokens: string[] = [], finish: string | null = null): string {
  const content = tokens.map((token) => ({ token, logprob: -1, bytes: null, top_logprobs: [{ token: "x", logprob: -2 }] }));
  return JSON.stringify({ choices: [{ delta, logprobs: tokens.length > 0 ? { content } : null, finish_reason: finish }] });
}

test("tokens belong to the part whose text they bring", () => {
  const reader = new PieceReader();
  const pieces = [
    event({ role: "assistant", content: "" }),
    event({ reasoning_content: "hm" }, ["<think>", "hm"]),
    event({}, ["</think>"]),
    event({ content: "Yes" }, ["Yes"]),
    event({}, ["."], "stop"),
    JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 3 } } }),
  ].map((text) => reader.read(text));
  assert.deepEqual(pieces.map((piece) => piece.tokens.map((token) => [token.part, token.text])), [
    [],
    [["reasoning", "<think>"], ["reasoning", "hm"]],
    [],
    [["content", "</think>"], ["content", "Yes"]],
    [["content", "."]],
    [],
  ]);
  assert.ok(reader.finished);
  assert.deepEqual(pieces[5]!.usage, { promptTokens: 5, cachedTokens: 3, generatedTokens: 4 });
});

test("errors in the stream and in bodies, in the server's words", () => {
  assert.throws(() => new PieceReader().read('{"error": {"message": "out of pages"}}'), /^ApiError: out of pages$/);
  assert.throws(() => new PieceReader().read("<html>"), ApiError);
  assert.equal(errorText('{"error": "plain"}'), "plain");
  assert.equal(errorText("null"), null);
  assert.equal(errorText('{"choices": []}'), null);
});
