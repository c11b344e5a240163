import assert from "node:assert/strict";
import test from "node:test";
import { percent, replaceToken, spell, visible } from "../../src/conversation/tokens";
import type { Alternative, Message, Part, Token } from "../../src/conversation/types";

function alternative(bytes: number[] | string): Alternative {
  const list = typeof bytes === "string" ? [...new TextEncoder().encode(bytes)] : bytes;
  return { text: new TextDecoder().decode(Uint8Array.from(list)), bytes: list, logprob: -1 };
}

function token(bytes: number[] | string, part: Part = "content"): Token {
  return { ...alternative(bytes), part, alternatives: [alternative(bytes), alternative(" other")] };
}

function message(content: string, tokens: Token[], reasoning = ""): Message {
  return { id: "m", parent: null, role: "assistant", content, reasoning, created: 0, tokens };
}

test("another token in the place of one", () => {
  const answer = message("one two three", [token("one"), token(" two"), token(" three")]);
  const continued = replaceToken(answer, 1, alternative(" other"));
  assert.equal(continued?.content, "one other");
  assert.deepEqual(continued?.tokens.map((one) => one.text), ["one", " other"]);
  assert.equal(continued?.tokens[1]?.alternatives.length, 2);
  assert.equal(replaceToken(answer, 3, alternative("x")), null);
});

test("characters over several tokens", () => {
  const [first, second] = [token([0xf0, 0x9f]), token([0x8c, 0x8d])];
  assert.equal(spell([first, second]), "🌍");
  assert.equal(spell([first]), null);
  const answer = message("a🌍b", [token("a"), first, second, token("b")]);
  // The other half of another character is a text; a letter there is none.
  assert.equal(replaceToken(answer, 2, alternative([0x8e, 0x89]))?.content, "a🎉");
  assert.equal(replaceToken(answer, 2, alternative("x")), null);
  assert.equal(replaceToken(answer, 1, alternative("x"))?.content, "ax");
});

test("thoughts: an answer goes on after them, not from within", () => {
  const tokens = [token("hm", "reasoning"), token(" so", "reasoning"), token("</think>\n\n"), token("Yes"), token("!")];
  const answer = message("Yes!", tokens, "hm so");
  assert.equal(replaceToken(answer, 1, alternative(" no")), null);
  // What the server left out before the answer's text is left out.
  assert.deepEqual(
    [replaceToken(answer, 4, alternative("?"))].map((one) => [one?.reasoning, one?.content]),
    [["hm so", "Yes?"]],
  );
});

test("probabilities and tokens for people", () => {
  assert.equal(percent(1), "100 %");
  assert.equal(percent(0.123456), "12.3 %");
  assert.equal(percent(0.0123), "1.23 %");
  assert.equal(percent(0.00005), "0.005 %");
  assert.equal(percent(1e-9), "< 0.001 %");
  assert.equal(visible(alternative(" a\n\t")), "␣a⏎⇥");
  assert.equal(visible(alternative([0xf0, 0x9f])), "‹f0›‹9f›");
  assert.equal(visible({ text: "", bytes: null, logprob: 0 }), "∅");
});
