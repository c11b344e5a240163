import assert from "node:assert/strict";
import test from "node:test";
import { EventParser, events } from "../../src/api/events";
import { Random } from "./random";

const STREAM =
  ": a comment\r\n\r\ndata: {\"a\": 1}\n\ndata: two\ndata: lines\r\n\r\nevent: ping\nid: 7\ndata:bare\n\ndata\n\n" +
  "data:  keeps one blank\r\rdata: ünïcödé 🌍 漢字\n\ndata: [DONE]\n\n";
const EVENTS = ['{"a": 1}', "two\nlines", "bare", "", " keeps one blank", "ünïcödé 🌍 漢字", "[DONE]"];

test("a stream in one piece", () => {
  assert.deepEqual(new EventParser().push(STREAM), EVENTS);
});

test("a stream cut anywhere, also within a character or a line's end", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  const random = new Random(1);
  for (let round = 0; round < 300; round++) {
    const chunks: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = round === 0 ? 1 : 1 + random.below(round < 150 ? 3 : 40);
      chunks.push(bytes.slice(at, at + length));
      at += length;
    }
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    const found: string[] = [];
    for await (const event of events(stream)) found.push(event);
    assert.deepEqual(found, EVENTS);
  }
});

test("an event without its end is no event", () => {
  assert.deepEqual(new EventParser().push("data: whole\n\ndata: half\n"), ["whole"]);
});

test("who stops listening stops the stream", async () => {
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("data: x\n\n")),
    cancel: () => void (cancelled = true),
  });
  for await (const event of events(stream)) {
    assert.equal(event, "x");
    break;
  }
  assert.ok(cancelled);
});
