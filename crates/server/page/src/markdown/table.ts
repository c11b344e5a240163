/** Tables: a row of cells, a row of dashes with the alignments, and rows. */
import { parseInline } from "./inline";
import type { Alignment, Block } from "./tree";

/** Whether a table starts at this line: as many cells in it as dashes in the next. */
export function isTable(lines: readonly string[], at: number): boolean {
  const head = lines[at]!;
  const dashes = lines[at + 1];
  if (!head.includes("|") || !dashes?.includes("-")) return false;
  const columns = cells(dashes);
  return columns.every((cell) => /^:?-+:?$/.test(cell)) && columns.length === cells(head).length;
}

export function parseTable(lines: readonly string[]): Block {
  const alignments = cells(lines[1]!).map(alignment);
  const row = (line: string) => {
    const found = cells(line);
    // Every row has as many cells as the head: some are empty, some too many.
    return alignments.map((_, column) => parseInline(found[column] ?? ""));
  };
  return { kind: "table", alignments, head: row(lines[0]!), rows: lines.slice(2).map(row) };
}

function alignment(dashes: string): Alignment {
  const left = dashes.startsWith(":");
  const right = dashes.endsWith(":");
  return left && right ? "center" : right ? "right" : left ? "left" : null;
}

/** The cells of a row. A bar in code or after a backslash divides nothing. */
function cells(line: string): string[] {
  const row = line.trim().replace(/^\|/, "");
  const found: string[] = [];
  let cell = "";
  let code = false;
  for (let at = 0; at < row.length; at++) {
    const character = row[at]!;
    if (character === "\\" && row[at + 1] === "|") {
      cell += "|";
      at++;
    } else if (character === "|" && !code) {
      found.push(cell.trim());
      cell = "";
    } else {
      if (character === "`" && (code || row.includes("`", at + 1))) code = !code;
      cell += character;
    }
  }
  if (cell.trim()) found.push(cell.trim());
  return found;
}
