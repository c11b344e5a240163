import assert from "node:assert/strict";
import test from "node:test";
import { parseMaths } from "../../src/maths/parse";
import type { MathNode } from "../../src/maths/tree";

/** A formula in short: `tag(children)`, leaves as their text. */
function short(node: MathNode | string): string {
  if (typeof node === "string") return node;
  const inside = node.children.map(short).join(" ");
  return ["mi", "mo", "mn"].includes(node.tag) ? inside : `${node.tag.slice(1)}(${inside})`;
}

function becomes(tex: string, expected: string): void {
  assert.equal(parseMaths(tex, false).children.map(short).join(" "), expected, tex);
}

test("scripts, fractions, roots", () => {
  becomes("x_1^2", "subsup(x 1 2)");
  becomes("x^{a+b}", "sup(x row(a + b))");
  becomes("f'(x)", "row(sup(f ′) ( x ))");
  becomes("x'^2", "sup(x row(′ 2))");
  becomes("\\frac12", "frac(12 row())");
  becomes("\\frac{a}{b}", "frac(a b)");
  becomes("\\sqrt{2}", "sqrt(2)");
  becomes("\\sqrt[3]{x+1}", "root(row(x + 1) 3)");
  becomes("^2", "sup(row() 2)");
});

test("operators with limits", () => {
  becomes("\\sum_{i=1}^{n} i", "row(underover(∑ row(i = 1) n) i)");
  becomes("\\int_0^1", "subsup(∫ 0 1)");
  becomes("\\lim_{x \\to 0}", "under(lim row(x → 0))");
  becomes("\\int\\limits_0^1", "underover(∫ 0 1)");
});

test("names of functions stand apart from what follows, but not from a bracket", () => {
  becomes("\\log_2 n", "row(row(sub(log 2) space()) n)");
  becomes("\\sin(x)", "row(sin ( x ))");
  becomes("\\operatorname{rank} A", "row(row(rank space()) A)");
});

test("letters, alphabets, text", () => {
  becomes("\\alpha \\leq \\mathbb{R}", "row(α ≤ ℝ)");
  becomes("\\mathbf{A1}", "row(𝐀 𝟏)");
  becomes("\\mathcal{L}\\mathfrak{g}", "row(ℒ 𝔤)");
  becomes("\\text{if } x", "row(text(if\u00a0) x)");
  becomes("3.14x", "row(3.14 x)");
  becomes("50\\%", "row(50 %)");
  becomes("\\hat{x}", "over(x ^)");
  becomes("\\not=", "≠");
});

test("brackets and tables", () => {
  becomes("\\left( x \\right]", "row(( x ])");
  becomes("\\left. x \\right|", "row(x |)");
  becomes("\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}", "row(( table(tr(td(a) td(b)) tr(td(c) td(d))) ))");
  becomes("\\begin{cases} 1 & x > 0 \\\\ 0 \\end{cases}", "row({ table(tr(td(1) td(row(x > 0))) tr(td(0))))");
  becomes("\\begin{aligned} a &= b \\\\ &= c \\\\ \\end{aligned}", "table(tr(td(a) td(row(= b))) tr(td(row()) td(row(= c))))");
  becomes("\\binom{n}{k}", "row(( frac(n k) ))");
});

test("what is not known, or not whole, is shown and harms nothing", () => {
  becomes("\\nosuch{x}", "row(text(\\nosuch) x)");
  becomes("{x", "x");
  becomes("x}", "row(x })");
  becomes("\\frac{a}", "frac(a row())");
  becomes("\\left(x", "row(( x)");
  becomes("\\begin{matrix} a", "table(tr(td(a)))");
  becomes("", "row()");
});

test("a formula of its own says so", () => {
  assert.deepEqual(parseMaths("x", true).attributes, { display: "block" });
  assert.equal(parseMaths("x", false).attributes, undefined);
});
