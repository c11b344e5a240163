/** What Markdown is parsed into. There is no node for HTML: what looks like a tag is text. */

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "maths"; text: string; display: boolean }
  | { kind: "break" }
  | { kind: Emphasis; children: Inline[] }
  /** `href` is always http, https or mailto. */
  | { kind: "link"; href: string; children: Inline[] };

export type Emphasis = "emphasis" | "strong" | "strike";

export type Alignment = "left" | "center" | "right" | null;

export interface Item {
  /** Whether a box before it is ticked; null when there is none. */
  done: boolean | null;
  children: Block[];
}

export type Block =
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "code"; language: string; text: string }
  /** `closed` is false while the rest of a formula is still to come. */
  | { kind: "maths"; text: string; closed: boolean }
  | { kind: "quote"; children: Block[] }
  /** A tight list has no empty lines between its items. */
  | { kind: "list"; start: number | null; tight: boolean; items: Item[] }
  | { kind: "table"; alignments: Alignment[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };
