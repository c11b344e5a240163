/**
 * Server-sent events over `fetch`: bytes in, the `data` of each event out, however the network cuts the bytes. The
 * browser's own `EventSource` cannot send a body or a key.
 */

/** Takes text in pieces and gives the data of every event that is complete. */
export class EventParser {
  private rest = "";
  private data: string[] = [];

  push(text: string): string[] {
    const events: string[] = [];
    this.rest += text;
    let start = 0;
    for (;;) {
      const end = this.lineEnd(start);
      if (end === null) break;
      const event = this.line(this.rest.slice(start, end.at));
      if (event !== null) events.push(event);
      start = end.next;
    }
    this.rest = this.rest.slice(start);
    return events;
  }

  /** Where the line from `start` ends and the next one starts. A last `\r` waits: half of a `\r\n` perhaps. */
  private lineEnd(start: number): { at: number; next: number } | null {
    for (let at = start; at < this.rest.length; at++) {
      const character = this.rest[at];
      if (character === "\n") return { at, next: at + 1 };
      if (character !== "\r") continue;
      if (at + 1 === this.rest.length) return null;
      return { at, next: this.rest[at + 1] === "\n" ? at + 2 : at + 1 };
    }
    return null;
  }

  /** An empty line ends an event; comments and fields other than `data` say nothing to us. */
  private line(line: string): string | null {
    if (line === "") {
      const event = this.data.length > 0 ? this.data.join("\n") : null;
      this.data = [];
      return event;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    if (field === "data") {
      const value = colon < 0 ? "" : line.slice(colon + 1);
      this.data.push(value.startsWith(" ") ? value.slice(1) : value);
    }
    return null;
  }
}

/** The data of each event of a stream of bytes. Ends when the stream does; an event without its end is dropped. */
export async function* events(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // A caller that stops listening early also stops the answer.
    await reader.cancel().catch(() => undefined);
  }
}
