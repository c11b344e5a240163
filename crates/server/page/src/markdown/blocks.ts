/**
 * Markdown in lines: paragraphs, headings, lists, tables, code, quotes, maths. CommonMark as models write it, with
 * tables, tasks and formulas; indented code, underlined headings, references and HTML are left out, and are text.
 */
import { parseInline } from "./inline";
import { isTable, parseTable } from "./table";
import type { Block, Item } from "./tree";

/** Deeper lists and quotes are paragraphs. */
const DEEPEST = 24;
/** A formula has no more lines: what never ends is not looked for to the end. */
const LONGEST_FORMULA = 60;

export function parseMarkdown(source: string): Block[] {
  return splitBlocks(source).map((part) => parseBlocks(part.split("\n"), 0)).flat();
}

/**
 * The source cut where one block ends and the next begins. While an answer grows only its last part changes, and only
 * that is parsed and drawn again.
 */
export function splitBlocks(source: string): string[] {
  const lines = source.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd").split("\n");
  const parts: string[] = [];
  let from = 0;
  while (from < lines.length) {
    if (isBlank(lines[from]!)) {
      from++;
      continue;
    }
    const { next } = block(lines, from, 0);
    parts.push(lines.slice(from, next).join("\n"));
    from = next;
  }
  return parts;
}

export function parseBlocks(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at]!)) {
      at++;
      continue;
    }
    const { next, make } = block(lines, at, depth);
    blocks.push(make());
    at = next;
  }
  return blocks;
}

/** A block that starts at a line: the line after it, and what it is once a caller wants to know. */
interface Found {
  next: number;
  make: () => Block;
}

function block(lines: readonly string[], at: number, depth: number): Found {
  return (
    fence(lines, at) ??
    formula(lines, at) ??
    heading(lines, at) ??
    rule(lines, at) ??
    (depth < DEEPEST ? (quote(lines, at, depth) ?? list(lines, at, depth)) : null) ??
    table(lines, at) ??
    paragraph(lines, at)
  );
}

function isBlank(line: string): boolean {
  return line.trim() === "";
}

function indentOf(line: string): number {
  let columns = 0;
  for (const character of line) {
    if (character === " ") columns++;
    else if (character === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

/** The line without up to `columns` columns of white space at its start. */
function unindent(line: string, columns: number): string {
  let at = 0;
  for (let column = 0; column < columns && at < line.length; at++) {
    if (line[at] === " ") column++;
    else if (line[at] === "\t") column += 4 - (column % 4);
    else break;
  }
  return line.slice(at);
}

function fence(lines: readonly string[], at: number): Found | null {
  const open = /^\s*(`{3,}|~{3,})([^`]*)$/.exec(lines[at]!);
  if (!open) return null;
  const [, marks, info] = open as unknown as [string, string, string];
  const indent = indentOf(lines[at]!);
  let end = at + 1;
  while (end < lines.length && !closes(lines[end]!, marks)) end++;
  return {
    next: Math.min(end + 1, lines.length),
    make: () => ({
      kind: "code",
      language: info.trim().split(/\s/)[0]!.toLowerCase(),
      text: lines.slice(at + 1, end).map((line) => unindent(line, indent)).join("\n"),
    }),
  };
}

function closes(line: string, marks: string): boolean {
  const trimmed = line.trim();
  return trimmed.length >= marks.length && trimmed === marks[0]!.repeat(trimmed.length);
}

/** `$$` or `\[` at the start of a line, up to its partner at the end of one; a blank line or the end leaves it open. */
function formula(lines: readonly string[], at: number): Found | null {
  const first = lines[at]!.trim();
  const open = first.startsWith("$$") ? "$$" : first.startsWith("\\[") ? "\\[" : null;
  if (!open) return null;
  const close = open === "$$" ? "$$" : "\\]";
  const body: string[] = [];
  for (let end = at; end < lines.length; end++) {
    const line = end === at ? first.slice(2) : lines[end]!.trim();
    if (end > at && (isBlank(line) || end - at > LONGEST_FORMULA)) return null;
    const found = line.indexOf(close);
    if (found < 0) {
      body.push(line);
      continue;
    }
    // Text after the formula: it stands within a sentence, and the paragraph finds it.
    if (found + close.length < line.length) return null;
    body.push(line.slice(0, found));
    return { next: end + 1, make: () => ({ kind: "maths", text: body.join("\n").trim(), closed: true }) };
  }
  return { next: lines.length, make: () => ({ kind: "maths", text: body.join("\n").trim(), closed: false }) };
}

function heading(lines: readonly string[], at: number): Found | null {
  const line = lines[at]!.trim();
  const marks = /^#{1,6}(?=\s|$)/.exec(line)?.[0];
  if (!marks) return null;
  const words = line.slice(marks.length).trim();
  // Marks at the end belong to the heading, not to its text, when white space is before them.
  const bare = words.replace(/#+$/, "");
  const text = bare === "" || /\s$/.test(bare) ? bare.trim() : words;
  return { next: at + 1, make: () => ({ kind: "heading", level: marks.length, children: parseInline(text) }) };
}

function rule(lines: readonly string[], at: number): Found | null {
  const marks = lines[at]!.replace(/\s+/g, "");
  const same = marks.length >= 3 && /^[-*_]/.test(marks) && marks === marks[0]!.repeat(marks.length);
  return same ? { next: at + 1, make: () => ({ kind: "rule" }) } : null;
}

function quote(lines: readonly string[], at: number, depth: number): Found | null {
  let end = at;
  while (end < lines.length && lines[end]!.trimStart().startsWith(">")) end++;
  if (end === at) return null;
  const inner = () => lines.slice(at, end).map((line) => line.trimStart().replace(/^> ?/, ""));
  return { next: end, make: () => ({ kind: "quote", children: parseBlocks(inner(), depth + 1) }) };
}

interface Marker {
  indent: number;
  /** The number of an ordered item; null for a bullet. */
  number: number | null;
  /** Items with the same sign are of one list: `-`, `*`, `+`, `.` or `)`. */
  sign: string;
  /** Where the text of the item starts, in columns. */
  content: number;
  text: string;
}

function marker(line: string): Marker | null {
  const indent = indentOf(line);
  const found = /^(?:([-*+])|(\d{1,9})([.)]))(\s|$)/.exec(line.trimStart());
  if (!found) return null;
  const width = found[0].length - found[4]!.length;
  const after = line.trimStart().slice(width);
  const spaces = indentOf(after);
  const padding = isBlank(after) || spaces > 4 ? 1 : spaces;
  return {
    indent,
    number: found[2] ? parseInt(found[2], 10) : null,
    sign: found[1] ?? found[3]!,
    content: indent + width + padding,
    text: unindent(after, padding),
  };
}

function list(lines: readonly string[], at: number, depth: number): Found | null {
  const first = marker(lines[at]!);
  if (!first) return null;
  const items: { lines: string[] }[] = [];
  let tight = true;
  let current = first;
  let end = at;
  for (let blankBefore = false; end < lines.length; end++) {
    const line = lines[end]!;
    const item = items.at(-1);
    if (isBlank(line)) {
      blankBefore = true;
      item!.lines.push("");
      continue;
    }
    const indent = indentOf(line);
    const next = marker(line);
    // Models indent what is below an item by two columns as often as by the width of its marker.
    const within = item !== undefined && indent >= Math.min(current.content, current.indent + 2);
    if (!within && next && next.sign === first.sign && rule(lines, end) === null) {
      if (item && blankBefore) tight = false;
      items.push({ lines: [next.text] });
      current = next;
    } else if (within) {
      if (blankBefore && next === null) tight = false;
      item.lines.push(unindent(line, current.content));
    } else if (item && !blankBefore && !interrupts(lines, end)) {
      item.lines.push(line.trimStart());
    } else {
      break;
    }
    blankBefore = false;
  }
  return {
    next: end,
    make: () => ({ kind: "list", start: first.number, tight, items: items.map((item) => makeItem(item.lines, depth)) }),
  };
}

function makeItem(lines: string[], depth: number): Item {
  const task = /^\[([ xX])\]\s+/.exec(lines[0]!);
  const rest = task ? [lines[0]!.slice(task[0].length), ...lines.slice(1)] : lines;
  return { done: task ? task[1] !== " " : null, children: parseBlocks(rest, depth + 1) };
}

function table(lines: readonly string[], at: number): Found | null {
  if (!isTable(lines, at)) return null;
  let end = at + 2;
  while (end < lines.length && !isBlank(lines[end]!) && lines[end]!.includes("|")) end++;
  return { next: end, make: () => parseTable(lines.slice(at, end)) };
}

function paragraph(lines: readonly string[], at: number): Found {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]!) && !interrupts(lines, end)) end++;
  const text = () => lines.slice(at, end).map((line) => line.trimStart()).join("\n").trim();
  return { next: end, make: () => ({ kind: "paragraph", children: parseInline(text()) }) };
}

/** Whether a line ends the paragraph before it. A number does so only when it can begin a list: `1.` */
function interrupts(lines: readonly string[], at: number): boolean {
  const line = lines[at]!;
  const item = marker(line);
  return (
    (item !== null && item.text !== "" && (item.number === null || item.number === 1)) ||
    line.trimStart().startsWith(">") ||
    rule(lines, at) !== null ||
    heading(lines, at) !== null ||
    /^\s*(`{3,}[^`]*|~{3,}.*)$/.test(line) ||
    formula(lines, at) !== null ||
    isTable(lines, at)
  );
}
