import assert from "node:assert/strict";
import test from "node:test";
import { KEPT_SAMPLES, merge, summary, type Sample } from "../../src/api/status";
import { action } from "../../src/chat/shortcuts";
import * as format from "../../src/common/format";
import { alone, CHARTS, linePath, ticks } from "../../src/status/series";

function sample(time: number, changes: Partial<Sample> = {}): Sample {
  return {
    time, running: 0, waiting: 0, pages_used: 0, pages_cached: 0, pages_total: 0, generated_tokens: 0, prompt_tokens: 0,
    cached_tokens: 0, rows_per_step: null, first_token_seconds: null, between_tokens_seconds: null, requests: 0, failures: 0,
    ...changes,
  };
}

test("each second once, however often it is told, and no more than five minutes", () => {
  const all = Array.from({ length: KEPT_SAMPLES + 50 }, (_, time) => sample(time));
  let kept: Sample[] = [];
  for (let heard = 1; heard <= all.length; heard += 7) kept = merge(kept, all.slice(0, heard));
  const last = kept.at(-1)!.time;
  assert.deepEqual(kept.map((one) => one.time), Array.from({ length: KEPT_SAMPLES }, (_, index) => last - KEPT_SAMPLES + 1 + index));
});

test("summaries", () => {
  const samples = [sample(1, { generated_tokens: 10, prompt_tokens: 100, cached_tokens: 25 }), sample(2, { generated_tokens: 30 })];
  assert.deepEqual(summary(samples, 2), { generated: 20, cached: 0.25 });
  assert.deepEqual(summary(samples, 1), { generated: 30, cached: null });
  assert.deepEqual(summary([], 5), { generated: 0, cached: null });
});

test("axes have round values, enough of them, and reach the top", () => {
  for (const most of [0.001, 0.013, 0.9, 1, 2, 3, 4, 7, 10, 12, 99, 100, 101, 640, 12345]) {
    const values = ticks(most);
    assert.ok(values.at(-1)! >= most * 0.9999 && values.at(-1)! < most * 2, `${most}: ${values}`);
    assert.ok(values.length >= 3 && values.length <= 6, `${most}: ${values}`);
  }
  assert.deepEqual(ticks(10), [0, 2.5, 5, 7.5, 10]);
});

test("lines break where there is nothing to say", () => {
  const path = linePath([1, 2, null, 3, null, 4, 5], (index) => index, (value) => -value);
  assert.equal(path, "M0.0 -1.0L1.0 -2.0M3.0 -3.0M5.0 -4.0L6.0 -5.0");
  assert.deepEqual(alone([1, 2, null, 3, null, 4, 5]), [3]);
  assert.deepEqual(alone([0]), [0]);
});

test("the cache's share is that of half a minute", () => {
  const line = CHARTS.find((chart) => chart.title === "Prefix cache")!.lines[0]!;
  const samples = Array.from({ length: 60 }, (_, time) => sample(time, time === 10 ? { prompt_tokens: 8, cached_tokens: 6 } : {}));
  const values = samples.map(line.value);
  assert.deepEqual([values[9], values[10], values[39], values[40]], [null, 0.75, 0.75, null]);
});

test("numbers for people", () => {
  assert.deepEqual([0, 0.1234, 1.234, 12.34, 123.4, 1234.5].map(format.number), ["0", "0.12", "1.23", "12.3", "123", "1,235"]);
  assert.deepEqual([0.0123, 1.5].map(format.seconds), ["12.3 ms", "1.5 s"]);
  assert.equal(format.share(0.456), "46 %");
});

test("keys: shortcuts are not taken from texts", () => {
  const press = (key: string, changes: object = {}) =>
    action({ key, code: "", altKey: false, ctrlKey: false, metaKey: false, defaultPrevented: false, target: null, ...changes });
  const typing = { target: { tagName: "TEXTAREA" } as unknown as EventTarget };
  assert.equal(press("/"), "compose");
  assert.equal(press("/", typing), null);
  assert.equal(press("?", typing), null);
  assert.equal(press("Escape", typing), "escape");
  assert.equal(press("Escape", { defaultPrevented: true }), null);
  assert.equal(press("ñ", { ...typing, altKey: true, code: "KeyN" }), "new");
  assert.equal(press("n", { ctrlKey: true, altKey: true, code: "KeyN" }), null);
  assert.equal(press("k", { metaKey: true, code: "KeyK" }), "search");
  assert.equal(press("n"), null);
});
