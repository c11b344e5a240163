/**
 * Colours for code: comments, strings, numbers and keywords, told apart by one expression for each family of languages.
 * No grammar is known; what is not recognised is plain.
 */

export type Colour = "comment" | "string" | "number" | "keyword" | "plain";

export interface Span {
  colour: Colour;
  text: string;
}

/** Longer code is not coloured: it would be for every picture of a growing answer. */
const LONGEST = 40_000;

interface Language {
  comment: string;
  string: string;
  keywords: Set<string>;
}

const C_COMMENT = String.raw`//[^\n]*|/\*[^]*?(?:\*/|$)`;
const HASH_COMMENT = String.raw`#[^\n]*`;
const QUOTED = String.raw`"(?:[^"\\\n]|\\[^])*(?:"|$|\n)|'(?:[^'\\\n]|\\[^])*(?:'|$|\n)`;
const TEMPLATE = "`(?:[^`\\\\]|\\\\[^])*(?:`|$)";
const TRIPLE = String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)`;
/** A quote in Rust is a lifetime as often as a character. */
const DOUBLE = String.raw`"(?:[^"\\]|\\[^])*(?:"|$)|'(?:[^'\\\n]|\\[^\n]{1,8})'`;

function language(comment: string, string: string, keywords: string): Language {
  return { comment, string, keywords: new Set(keywords.split(" ")) };
}

const PYTHON = language(
  HASH_COMMENT,
  `${TRIPLE}|${QUOTED}`,
  "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return True try while with yield self",
);
const SCRIPT = language(
  C_COMMENT,
  `${QUOTED}|${TEMPLATE}`,
  "abstract any as async await boolean break case catch class const continue declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let never new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined unknown var void while yield",
);
const RUST = language(
  C_COMMENT,
  DOUBLE,
  "as async await bool break char const continue crate dyn else enum extern f32 f64 false fn for i128 i16 i32 i64 i8 if impl in isize let loop match mod move mut pub ref return self Self static str struct super trait true type u128 u16 u32 u64 u8 unsafe use usize where while Option Result Some None Ok Err Vec String Box",
);
const C = language(
  C_COMMENT,
  QUOTED,
  "auto bool break case catch char class const constexpr continue default delete do double else enum extern false final float for goto if import inline int interface internal long namespace new null nullptr operator override package private protected public return short signed sizeof static string struct super switch template this throw throws true try typedef typename union unsigned using var virtual void volatile while func type range chan defer go map select fallthrough let guard val when fun",
);
const SHELL = language(
  HASH_COMMENT,
  QUOTED,
  "if then else elif fi for while until do done case esac in function return export local set unset echo cd exit source alias sudo",
);
const SQL = language(
  String.raw`--[^\n]*|/\*[^]*?(?:\*/|$)`,
  QUOTED,
  "select from where and or not insert into values update set delete create table drop alter index view join left right inner outer full cross on group by order having limit offset as distinct union all exists in is null like between case when then else end primary key foreign references default constraint with count sum avg min max",
);
const DATA = language(HASH_COMMENT, QUOTED, "true false null yes no on off");

const LANGUAGES: Record<string, Language> = {};
for (const [names, shared] of [
  ["python py python3 ruby rb elixir r julia", PYTHON],
  ["javascript js typescript ts tsx jsx mjs", SCRIPT],
  ["rust rs", RUST],
  ["c cpp c++ cc h hpp java csharp cs c# go golang kotlin kt swift scala php dart zig wgsl glsl cuda objc", C],
  ["bash sh shell zsh console fish dockerfile makefile make powershell", SHELL],
  ["sql sqlite postgresql mysql", SQL],
  ["json yaml yml toml ini jsonc properties", DATA],
] as const) {
  for (const name of names.split(" ")) LANGUAGES[name] = shared;
}

/** The spans of some code; together they are the code. */
export function highlight(code: string, name: string): Span[] {
  const known = Object.hasOwn(LANGUAGES, name) ? LANGUAGES[name] : undefined;
  if (!known || code.length > LONGEST) return [{ colour: "plain", text: code }];
  const pattern = new RegExp(
    String.raw`(${known.comment})|(${known.string})|(\b\d(?:[\w.]*\w)?\b)|([\p{L}_$][\p{L}\p{N}_$]*)`,
    "gu",
  );
  const spans: Span[] = [];
  const push = (colour: Colour, text: string) => {
    const last = spans.at(-1);
    if (last?.colour === colour) last.text += text;
    else if (text) spans.push({ colour, text });
  };
  let at = 0;
  for (const found of code.matchAll(pattern)) {
    push("plain", code.slice(at, found.index));
    const [text, comment, string, number] = found;
    const keyword = known.keywords.has(known === SQL ? text.toLowerCase() : text);
    push(comment ? "comment" : string ? "string" : number ? "number" : keyword ? "keyword" : "plain", text);
    at = found.index + text.length;
  }
  push("plain", code.slice(at));
  return spans;
}
