/**
 * TeX formulas, as models write them, into MathML that browsers draw by themselves. A command that is not known is
 * shown by its name; no formula fails, and none runs anything: there are no macros.
 */
import { Scanner } from "./scanner";
import * as symbols from "./symbols";
import { node, operator, row, space, type MathNode } from "./tree";

const DEEPEST = 40;

/** Brackets around a table, and how its columns are aligned. */
const ENVIRONMENTS: Record<string, { open?: string; close?: string; columns?: "alternate" | "left" }> = {
  matrix: {},
  smallmatrix: {},
  pmatrix: { open: "(", close: ")" },
  bmatrix: { open: "[", close: "]" },
  Bmatrix: { open: "{", close: "}" },
  vmatrix: { open: "|", close: "|" },
  Vmatrix: { open: "‖", close: "‖" },
  cases: { open: "{", columns: "left" },
  rcases: { close: "}", columns: "left" },
  array: {},
  aligned: { columns: "alternate" },
  align: { columns: "alternate" },
  split: { columns: "alternate" },
  alignedat: { columns: "alternate" },
  eqnarray: { columns: "alternate" },
  gather: {},
  gathered: {},
  equation: {},
  multline: {},
};

export function parseMaths(tex: string, display: boolean): MathNode {
  const parser = new MathsParser(new Scanner(tex));
  return node("math", parser.all(), display ? { display: "block" } : undefined);
}

class MathsParser {
  private depth = 0;
  private alphabet = "";

  constructor(private readonly scanner: Scanner) {}

  /** The whole formula. What closes a group that was never opened is shown. */
  all(): MathNode[] {
    const rows: MathNode[][] = [this.nodes()];
    for (let stop = this.scanner.next(); stop !== null; stop = this.scanner.next()) {
      if (stop === "\\\\" || stop === "\\cr") rows.push([]);
      else rows.at(-1)!.push(operator(stop, { stretchy: "false" }));
      rows.at(-1)!.push(...this.nodes());
    }
    if (rows.length === 1) return [row(rows[0]!)];
    return [table(rows.filter((nodes) => nodes.length > 0).map((nodes) => [nodes]))];
  }

  /** Atoms up to what only the one who asked can use: `}`, `&`, `\\`, `\right`, `\end`, `]` within `stop`. */
  private nodes(stop: string[] = []): MathNode[] {
    const nodes: MathNode[] = [];
    for (;;) {
      const token = this.scanner.peek();
      if (token === null || stop.includes(token)) return nodes;
      if (["}", "&", "\\\\", "\\cr", "\\right", "\\end", "\\middle"].includes(token)) return nodes;
      const atom = this.scripted();
      if (atom) nodes.push(atom);
    }
  }

  /** An atom with what stands above and below it. */
  private scripted(): MathNode | null {
    const start = this.scanner.peek();
    let limits = isLimits(start);
    const base = start === "^" || start === "_" || start === "'" ? row([]) : this.atom();
    const below: MathNode[] = [];
    const above: MathNode[] = [];
    for (;;) {
      const token = this.scanner.peek();
      if (token === "\\limits" || token === "\\nolimits") {
        limits = token === "\\limits";
        this.scanner.next();
      } else if (token === "'") {
        let primes = "";
        for (; this.scanner.peek() === "'"; this.scanner.next()) primes += "′";
        above.push(operator(primes));
      } else if (token === "^" || token === "_") {
        this.scanner.next();
        (token === "^" ? above : below).push(this.argument());
      } else {
        break;
      }
    }
    if (!base) return null;
    const whole = withScripts(base, below, above, limits);
    return isFunction(start) && this.isApart() ? node("mrow", [whole, space(1 / 6)]) : whole;
  }

  /** Whether what follows stands apart from the name of a function: no bracket, and not the end. */
  private isApart(): boolean {
    const next = this.scanner.peek();
    return next !== null && !["(", "[", "{", "}", "\\left", "&", "\\\\", ",", "="].includes(next);
  }

  /** A group in braces or a single atom: what a command or a script takes. */
  private argument(): MathNode {
    const token = this.scanner.peek();
    if (token === null || token === "}" || token === "&") return row([]);
    return this.atom() ?? row([]);
  }

  private atom(): MathNode | null {
    if (++this.depth > DEEPEST) {
      this.depth--;
      return node("mtext", [this.scanner.next() ?? ""]);
    }
    try {
      const token = this.scanner.next()!;
      if (token === "{") return this.group();
      if (token.startsWith("\\")) return this.command(token.slice(1));
      return this.character(token);
    } finally {
      this.depth--;
    }
  }

  /** What follows an opening brace, up to its partner. */
  private group(): MathNode {
    const alphabet = this.alphabet;
    const rows: MathNode[][] = [this.nodes()];
    while (["&", "\\\\", "\\cr"].includes(this.scanner.peek() ?? "")) {
      this.scanner.next();
      rows.push(this.nodes());
    }
    this.scanner.accept("}");
    this.alphabet = alphabet;
    return rows.length === 1 ? row(rows[0]!) : table(rows.map((nodes) => [nodes]));
  }

  private character(character: string): MathNode {
    if (/[0-9]/.test(character)) {
      const digits = character + this.scanner.take(/[0-9]*(?:\.[0-9]+)?/y);
      return node("mn", [[...digits].map((digit) => symbols.inAlphabet(digit, this.alphabet)).join("")]);
    }
    if (/\p{L}/u.test(character)) return this.letter(character);
    if ("()[]|/".includes(character)) return operator(character, { stretchy: "false" });
    if (character === "~") return space(0.25);
    if (character === "-") return operator("−");
    if (character === "*") return operator("∗");
    return operator(character);
  }

  private letter(character: string): MathNode {
    const shown = symbols.inAlphabet(character, this.alphabet);
    const upright = this.alphabet === "mathrm" || this.alphabet === "rm" || shown !== character;
    return node("mi", [shown], upright ? { mathvariant: "normal" } : undefined);
  }

  private command(name: string): MathNode | null {
    const letter = symbols.LETTERS.get(name);
    if (letter) return this.letter(letter);
    const sign = symbols.OPERATORS.get(name) ?? symbols.LARGE.get(name) ?? symbols.INTEGRALS.get(name);
    if (sign) return operator(sign);
    const width = symbols.SPACES.get(name);
    if (width !== undefined) return space(width);
    const alphabet = symbols.alphabetOf(name);
    if (alphabet) return this.inAlphabet(alphabet);
    const accent = symbols.ACCENTS.get(name);
    if (accent) return accented("mover", this.argument(), accent);
    const under = symbols.UNDER_ACCENTS.get(name);
    if (under) return accented("munder", this.argument(), under);
    if (symbols.FUNCTIONS.has(name)) return word(name.replace(/^(arg|lim)(?=max|min|sup|inf)/, "$1 "));
    if (/^[bB]igg?[lrm]?$/.test(name)) return operator(this.delimiter(), { stretchy: "false" });
    const delimiter = symbols.DELIMITERS.get(name);
    if (delimiter) return operator(delimiter, { stretchy: "false" });
    return this.construction(name);
  }

  private inAlphabet(alphabet: string): MathNode {
    const before = this.alphabet;
    this.alphabet = alphabet;
    const argument = this.argument();
    this.alphabet = before;
    return argument;
  }

  /** Commands with a shape of their own. */
  private construction(name: string): MathNode | null {
    switch (name) {
      case "frac":
      case "dfrac":
      case "tfrac":
      case "cfrac":
        return node("mfrac", [this.argument(), this.argument()]);
      case "binom":
      case "dbinom":
      case "tbinom":
        return fenced("(", [node("mfrac", [this.argument(), this.argument()], { linethickness: "0" })], ")");
      case "sqrt":
        return this.root();
      case "text":
      case "textrm":
      case "textit":
      case "textbf":
      case "texttt":
      case "mbox":
      case "hbox":
      case "tag":
        return node("mtext", [name === "tag" ? `(${this.scanner.raw()})` : this.scanner.raw().replaceAll(" ", "\u00a0")]);
      case "operatorname":
        this.scanner.accept("*");
        return word(this.scanner.raw());
      case "left":
        return this.leftRight();
      case "begin":
        return this.environment(this.scanner.raw());
      case "overset":
      case "stackrel":
        return swapped("mover", this.argument(), this.argument());
      case "underset":
        return swapped("munder", this.argument(), this.argument());
      case "xrightarrow":
        return node("mover", [operator("→", { stretchy: "true" }), this.argument()]);
      case "xleftarrow":
        return node("mover", [operator("←", { stretchy: "true" }), this.argument()]);
      case "boxed":
      case "fbox":
        return node("mrow", [this.argument()], { class: "boxed" });
      case "not":
        return this.negated();
      case "pmod":
        return node("mrow", [space(1), ...parenthesised([word("mod"), space(1 / 3), this.argument()])]);
      case "bmod":
      case "mod":
        return node("mrow", [space(1 / 3), word("mod"), space(1 / 3)]);
      case "phantom":
        return node("mphantom", [this.argument()]);
      case "substack":
        return this.argument();
      case "color":
      case "textcolor":
        this.scanner.raw();
        return name === "color" ? null : this.argument();
      case "label":
        this.scanner.raw();
        return null;
      case "displaystyle":
      case "textstyle":
      case "scriptstyle":
      case "limits":
      case "nolimits":
      case "nonumber":
      case "notag":
      case "hline":
      case "mathstrut":
      case "strut":
        return null;
      case "middle":
        return operator(this.delimiter(), { stretchy: "true" });
      default:
        return node("mtext", [`\\${name}`], { class: "unknown" });
    }
  }

  private root(): MathNode {
    if (!this.scanner.accept("[")) return node("msqrt", [this.argument()]);
    const degree = row(this.nodes(["]"]));
    this.scanner.accept("]");
    return node("mroot", [this.argument(), degree]);
  }

  private delimiter(): string {
    const token = this.scanner.next() ?? ".";
    if (token === ".") return "";
    if (!token.startsWith("\\")) return token === "<" ? "⟨" : token === ">" ? "⟩" : token;
    return symbols.DELIMITERS.get(token.slice(1)) ?? symbols.OPERATORS.get(token.slice(1)) ?? token;
  }

  private leftRight(): MathNode {
    const open = this.delimiter();
    const inside = this.nodes();
    while (this.scanner.accept("\\middle")) {
      inside.push(operator(this.delimiter(), { stretchy: "true" }), ...this.nodes());
    }
    const close = this.scanner.accept("\\right") ? this.delimiter() : "";
    return fenced(open, inside, close);
  }

  private environment(name: string): MathNode {
    const known = ENVIRONMENTS[name.replace("*", "")] ?? {};
    if (name === "array" || name.startsWith("alignedat")) this.scanner.raw();
    const rows: MathNode[][][] = [[this.nodes()]];
    for (;;) {
      const token = this.scanner.peek();
      if (token === "&") rows.at(-1)!.push((this.scanner.next(), this.nodes()));
      else if (token === "\\\\" || token === "\\cr") {
        this.scanner.next();
        this.scanner.take(/\s*\[[^\]]{0,12}\]/y);
        rows.push([this.nodes()]);
      } else break;
    }
    if (this.scanner.accept("\\end")) this.scanner.raw();
    if (rows.at(-1)!.every((cell) => cell.length === 0)) rows.pop();
    const body = table(rows, known.columns);
    return known.open || known.close ? fenced(known.open ?? "", [body], known.close ?? "") : body;
  }

  private negated(): MathNode {
    const negated = this.argument();
    const sign = negated.children[0];
    if (negated.tag === "mo" && typeof sign === "string") return operator((sign + "\u0338").normalize("NFC"));
    return negated;
  }
}

function isFunction(token: string | null): boolean {
  return token === "\\operatorname" || symbols.FUNCTIONS.has(token?.slice(1) ?? "");
}

/** A node with what is below and above it: beside it, or in the middle. */
function withScripts(base: MathNode, below: MathNode[], above: MathNode[], limits: boolean): MathNode {
  if (above.length > 0 && below.length > 0) {
    return node(limits ? "munderover" : "msubsup", [base, row(below), row(above)]);
  }
  if (above.length > 0) return node(limits ? "mover" : "msup", [base, row(above)]);
  if (below.length > 0) return node(limits ? "munder" : "msub", [base, row(below)]);
  return base;
}

function isLimits(token: string | null): boolean {
  const name = token?.startsWith("\\") ? token.slice(1) : "";
  return (
    symbols.LARGE.has(name) ||
    symbols.FUNCTIONS_WITH_LIMITS.has(name) ||
    ["underbrace", "overbrace", "overset", "underset", "xrightarrow", "xleftarrow"].includes(name)
  );
}

function word(text: string): MathNode {
  return node("mi", [text], { mathvariant: "normal" });
}

function parenthesised(nodes: MathNode[]): MathNode[] {
  return [operator("(", { stretchy: "false" }), ...nodes, operator(")", { stretchy: "false" })];
}

function accented(tag: "mover" | "munder", base: MathNode, accent: string): MathNode {
  const attributes = { stretchy: ["¯", "_", "⏞", "⏟", "⎴", "⎵", "→", "←"].includes(accent) ? "true" : "false" };
  return node(tag, [base, operator(accent, attributes)], { [tag === "mover" ? "accent" : "accentunder"]: "true" });
}

function swapped(tag: string, script: MathNode, base: MathNode): MathNode {
  return node(tag, [base, script]);
}

function fenced(open: string, inside: MathNode[], close: string): MathNode {
  const fence = (text: string, form: string) =>
    text ? [operator(text, { fence: "true", stretchy: "true", form })] : [];
  return node("mrow", [...fence(open, "prefix"), ...inside, ...fence(close, "postfix")]);
}

/** A table of cells; `columns` says how they are aligned, otherwise in the middle. */
function table(rows: MathNode[][][], columns?: "alternate" | "left"): MathNode {
  const cells = (cell: MathNode[], column: number) => {
    const left = columns === "left" || (columns === "alternate" && column % 2 === 1);
    const side = columns === undefined ? undefined : { class: left ? "left" : "right" };
    return node("mtd", [row(cell)], side);
  };
  return node("mtable", rows.map((one) => node("mtr", one.map(cells))), columns ? { class: "aligned" } : undefined);
}
