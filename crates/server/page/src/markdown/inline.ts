/**
 * The text within a block: emphasis, code, links, maths. The text is walked once; runs of `*`, `_` and `~` are paired
 * afterwards by CommonMark's rules, over a linked list, so that no text, however hostile, takes more than a moment.
 */
import type { Emphasis, Inline } from "./tree";

/** Deeper emphasis stays as it was written: a page need not survive ten thousand levels of it. */
const DEEPEST = 24;
const LONGEST_LINK = 2000;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** A piece of the text: a node, or a run of marks that may yet become emphasis. */
interface Piece {
  node: Inline | null;
  /** Grows from piece to piece. */
  place: number;
  /** Levels of emphasis within the node. */
  depth: number;
  mark: string;
  count: number;
  opens: boolean;
  closes: boolean;
  before: Piece | null;
  after: Piece | null;
}

interface Bracket {
  piece: Piece;
  /** Where the text after the bracket starts. */
  start: number;
}

export function parseInline(text: string): Inline[] {
  return new InlineParser(text).parse();
}

class InlineParser {
  private readonly first: Piece = piece(null, "");
  private last: Piece = this.first;
  private at = 0;
  private plain = "";
  private brackets: Bracket[] = [];
  /** What is known to have no end further on: it is not looked for again. */
  private endless = new Set<string>();

  constructor(private readonly text: string) {}

  parse(): Inline[] {
    while (this.at < this.text.length) {
      if (!this.special()) this.plain += this.text[this.at++];
    }
    this.flush();
    pair(this.first);
    return collect(this.first.after, null);
  }

  /** Takes what starts here, if it is more than a character. */
  private special(): boolean {
    switch (this.text[this.at]) {
      case "\n":
        this.plain = this.plain.trimEnd();
        return this.take({ kind: "break" }, 1);
      case "\\":
        return this.escape();
      case "`":
        return this.code();
      case "$":
        return this.dollar();
      case "*":
      case "_":
      case "~":
        return this.run();
      case "[":
        return this.openBracket(1);
      case "!":
        return this.text[this.at + 1] === "[" && this.openBracket(2);
      case "]":
        return this.closeBracket();
      case "<":
        return this.angle();
      case "&":
        return this.entity();
      case "h":
        return this.bareLink();
      default:
        return false;
    }
  }

  private flush(): void {
    if (this.plain) this.append(piece({ kind: "text", text: this.plain }, ""));
    this.plain = "";
  }

  private append(added: Piece): void {
    added.before = this.last;
    added.place = this.last.place + 1;
    this.last.after = added;
    this.last = added;
  }

  private take(node: Inline, length: number): true {
    this.flush();
    this.append(piece(node, ""));
    this.at += length;
    return true;
  }

  private escape(): boolean {
    const next = this.text[this.at + 1] ?? "";
    if (next === "(" && this.formula("\\(", "\\)", false)) return true;
    if (next === "[" && this.formula("\\[", "\\]", true)) return true;
    if (next === "\n") return this.take({ kind: "break" }, 2);
    if (!PUNCTUATION.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  /** Where `mark` is found at or after `from`; a mark that is not found is not looked for twice. */
  private find(mark: string, from: number): number {
    if (this.endless.has(mark)) return -1;
    const found = this.text.indexOf(mark, from);
    if (found < 0) this.endless.add(mark);
    return found;
  }

  private formula(open: string, close: string, display: boolean): boolean {
    const start = this.at + open.length;
    const end = this.find(close, start);
    if (end < 0 || !this.text.slice(start, end).trim()) return false;
    return this.take({ kind: "maths", text: this.text.slice(start, end), display }, end + close.length - this.at);
  }

  /** `$x$` is maths when it clings to what is inside and no digit follows: `$5 and $6` is money. */
  private dollar(): boolean {
    if (this.text.startsWith("$$", this.at)) return this.formula("$$", "$$", true);
    const end = this.find("$", this.at + 1);
    if (end < 0) return false;
    const inside = this.text.slice(this.at + 1, end);
    if (!inside || inside !== inside.trim() || /[0-9]/.test(this.text[end + 1] ?? "") || inside.includes("\n\n")) {
      return false;
    }
    return this.take({ kind: "maths", text: inside, display: false }, inside.length + 2);
  }

  private code(): boolean {
    const run = /`+/y;
    run.lastIndex = this.at;
    const ticks = run.exec(this.text)![0];
    const start = this.at + ticks.length;
    if (!this.endless.has(ticks)) {
      const runs = /`+/g;
      runs.lastIndex = start;
      for (let next = runs.exec(this.text); next; next = runs.exec(this.text)) {
        if (next[0].length !== ticks.length) continue;
        let inside = this.text.slice(start, next.index).replaceAll("\n", " ");
        if (inside.startsWith(" ") && inside.endsWith(" ") && inside.trim()) inside = inside.slice(1, -1);
        return this.take({ kind: "code", text: inside }, next.index + ticks.length - this.at);
      }
      this.endless.add(ticks);
    }
    this.plain += ticks;
    this.at = start;
    return true;
  }

  /** A run of marks: whether it can open or close emphasis depends on what is on both sides of it. */
  private run(): true {
    const mark = this.text[this.at]!;
    let end = this.at;
    while (this.text[end] === mark) end++;
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[end] ?? " ";
    const space = /\s/;
    const punctuation = /[\p{P}\p{S}]/u;
    const left = !space.test(after) && (!punctuation.test(after) || space.test(before) || punctuation.test(before));
    const right = !space.test(before) && (!punctuation.test(before) || space.test(after) || punctuation.test(after));
    this.flush();
    const run = piece(null, mark);
    run.count = end - this.at;
    run.opens = mark === "_" ? left && (!right || punctuation.test(before)) : left;
    run.closes = mark === "_" ? right && (!left || punctuation.test(after)) : right;
    this.append(run);
    this.at = end;
    return true;
  }

  private openBracket(length: number): true {
    const text = this.text.slice(this.at, this.at + length);
    this.take({ kind: "text", text }, length);
    this.brackets.push({ piece: this.last, start: this.at });
    return true;
  }

  /** The end of a link's text: a link when its address follows, and a good one. Pictures are links too. */
  private closeBracket(): boolean {
    const bracket = this.brackets.pop();
    if (!bracket || this.text[this.at + 1] !== "(") return false;
    const rest = this.text.slice(this.at + 2, this.at + 2 + LONGEST_LINK);
    const found = /^[ \n]*(?:<([^<>\n]*)>|((?:[^\s()]|\([^\s()]*\))*))(?:[ \n]+(?:"[^"]*"|'[^']*'))?[ \n]*\)/.exec(rest);
    if (!found) return false;
    const href = safeAddress(found[1] ?? found[2] ?? "");
    if (href === null) return false;
    this.flush();
    pair(bracket.piece);
    const children = collect(bracket.piece.after, null);
    const link = bracket.piece;
    link.node = { kind: "link", href, children: children.length > 0 ? children : [{ kind: "text", text: href }] };
    link.after = null;
    this.last = link;
    this.brackets = [];
    this.at += 2 + found[0].length;
    return true;
  }

  private angle(): boolean {
    const found = /^<(?:(br) *\/?|((?:https?:\/\/|mailto:)[^\s<>]*))>/i.exec(
      this.text.slice(this.at, this.at + LONGEST_LINK),
    );
    if (!found) return false;
    if (found[1]) return this.take({ kind: "break" }, found[0].length);
    const href = safeAddress(found[2]!);
    return href !== null && this.take({ kind: "link", href, children: [text(found[2]!)] }, found[0].length);
  }

  private bareLink(): boolean {
    if (!/^https?:\/\//.test(this.text.slice(this.at, this.at + 8)) || this.brackets.length > 0) return false;
    if (/\w/.test(this.text[this.at - 1] ?? "")) return false;
    const address = /^[^\s<>"`*[\]]*[^\s<>"`*[\].,:;!?'_~]/.exec(this.text.slice(this.at, this.at + LONGEST_LINK));
    let shown = address?.[0] ?? "";
    // A closing bracket that was opened before the address is not part of it.
    while (shown.endsWith(")") && shown.split(")").length > shown.split("(").length) shown = shown.slice(0, -1);
    const href = safeAddress(shown);
    return href !== null && this.take({ kind: "link", href, children: [text(shown)] }, shown.length);
  }

  private entity(): boolean {
    const found = /^&(?:([a-z]+)|#([0-9]{1,7})|#x([0-9a-f]{1,6}));/i.exec(this.text.slice(this.at, this.at + 12));
    if (!found) return false;
    const code = found[2] ? parseInt(found[2], 10) : found[3] ? parseInt(found[3], 16) : null;
    const character =
      code === null ? ENTITIES[found[1]!] : code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
    if (character === undefined) return false;
    this.plain += character;
    this.at += found[0].length;
    return true;
  }
}

/** The address if a page may lead there: never a script, nor a path of this very server. */
export function safeAddress(address: string): string | null {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

function text(text: string): Inline {
  return { kind: "text", text };
}

function piece(node: Inline | null, mark: string): Piece {
  return { node, place: 0, depth: 0, mark, count: 0, opens: false, closes: false, before: null, after: null };
}

/** Pairs the runs of marks after a piece into emphasis. */
function pair(start: Piece): void {
  /** No run up to this place opens emphasis any more. */
  let floor = start.place;
  /** The same for one kind of closing run: where a search found nothing, none goes again. */
  let floors = new Map<string, number>();
  for (let closer = start.after; closer; ) {
    if (!closer.closes || closer.count === 0) {
      closer = closer.after;
      continue;
    }
    const kind: string = closer.mark + (closer.opens ? "o" : "") + (closer.mark === "~" ? closer.count : closer.count % 3);
    const bottom: number = floors.get(kind) ?? floor;
    let opener: Piece = closer.before!;
    while (opener.place > bottom && !fits(opener, closer)) opener = opener.before!;
    if (opener.place <= bottom) {
      floors.set(kind, closer.before!.place);
      closer = closer.after;
    } else if (!wrap(opener, closer)) {
      // Too deep, and so would be whatever is opened before: all of that stays as it was written.
      floor = closer.place;
      floors = new Map();
      closer = closer.after;
    }
  }
}

function fits(opener: Piece, closer: Piece): boolean {
  if (opener.mark !== closer.mark || !opener.opens || opener.count === 0) return false;
  if (closer.mark === "~") return opener.count === closer.count && closer.count <= 2;
  const both = (opener.closes || closer.opens) && (opener.count + closer.count) % 3 === 0;
  return !both || (opener.count % 3 === 0 && closer.count % 3 === 0);
}

/** What stands between two runs becomes one piece, and the runs lose the marks that made it so; false if too deep. */
function wrap(opener: Piece, closer: Piece): boolean {
  const used = closer.mark === "~" ? closer.count : opener.count >= 2 && closer.count >= 2 ? 2 : 1;
  const kind: Emphasis = closer.mark === "~" ? "strike" : used === 2 ? "strong" : "emphasis";
  let depth = 0;
  for (let inner = opener.after; inner !== closer; inner = inner!.after) depth = Math.max(depth, inner!.depth);
  if (depth >= DEEPEST) return false;
  const wrapped = piece({ kind, children: collect(opener.after, closer) }, "");
  wrapped.depth = depth + 1;
  wrapped.place = closer.before!.place;
  opener.count -= used;
  closer.count -= used;
  // A run without marks left is no piece any more; the closing one is still being looked at.
  const before = opener.count > 0 ? opener : opener.before!;
  wrapped.before = before;
  before.after = wrapped;
  wrapped.after = closer;
  closer.before = wrapped;
  return true;
}

/** Pieces as nodes, neighbouring texts as one. */
function collect(start: Piece | null, end: Piece | null): Inline[] {
  const nodes: Inline[] = [];
  for (let next = start; next && next !== end; next = next.after) {
    const node = next.node ?? (next.count > 0 ? text(next.mark.repeat(next.count)) : null);
    if (!node) continue;
    const before = nodes.at(-1);
    if (node.kind === "text" && before?.kind === "text") nodes[nodes.length - 1] = text(before.text + node.text);
    else nodes.push(node);
  }
  return nodes;
}
