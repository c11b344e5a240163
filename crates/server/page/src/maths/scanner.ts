/** TeX as tokens: commands with their backslash, and single characters. White space and comments are passed over. */
export class Scanner {
  private at = 0;

  constructor(private readonly tex: string) {}

  peek(): string | null {
    const before = this.at;
    const token = this.next();
    // White space before the token need not be passed over again.
    this.at = token === null ? this.tex.length : Math.max(before, this.at - token.length);
    return token;
  }

  next(): string | null {
    this.skip();
    if (this.at >= this.tex.length) return null;
    if (this.tex[this.at] === "\\") return this.take(/\\(?:[a-zA-Z]+|[^]|$)/uy);
    return this.take(/[^]/uy);
  }

  private skip(): void {
    this.take(/(?:\s|%[^\n]*(?:\n|$))*/y);
  }

  /** Takes the next token if it is this one. */
  accept(token: string): boolean {
    if (this.peek() !== token) return false;
    this.next();
    return true;
  }

  /** Takes what a sticky expression finds here, nothing if it finds nothing. */
  take(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.tex)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** The text of a group as it stands, without its braces: what `\text` and the like take. */
  raw(): string {
    if (!this.accept("{")) return this.next() ?? "";
    const start = this.at;
    for (let open = 1; this.at < this.tex.length; this.at++) {
      const character = this.tex[this.at];
      if (character === "\\") this.at++;
      else if (character === "{") open++;
      else if (character === "}" && --open === 0) break;
    }
    const text = this.tex.slice(start, this.at);
    this.at = Math.min(this.at + 1, this.tex.length);
    return text.replace(/\\([{}$%&#_ ])/g, "$1").replace(/\$/g, "");
  }
}
