import assert from "node:assert/strict";
import test from "node:test";
import { draw, elements, textOf } from "./html";
import { Random } from "./random";

/** All that an answer may be made of. */
const ELEMENTS = new Set(
  `p h3 h4 h5 h6 ul ol li blockquote hr br em strong del a code pre span figure figcaption div table thead tbody tr th
   td input math mrow mi mo mn mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd
   mphantom`.split(/\s+/),
);
const ATTRIBUTES = new Set(
  `class href target rel start type checked disabled tabIndex role aria-label display mathvariant stretchy fence form
   width linethickness accent accentunder`.split(/\s+/),
);

function assertHarmless(source: string): void {
  for (const element of elements(draw(source))) {
    assert.ok(ELEMENTS.has(element.tag), `<${element.tag}> from ${source.slice(0, 200)}`);
    for (const [name, value] of Object.entries(element.attributes)) {
      assert.ok(ATTRIBUTES.has(name), `${name} from ${source.slice(0, 200)}`);
      assert.equal(typeof value === "object" || typeof value === "function", false, `${name} from ${source}`);
    }
    const { href } = element.attributes;
    if (href !== undefined) assert.match(String(href), /^(https?:\/\/|mailto:)/, source);
    if (element.tag === "input") assert.equal(element.attributes.type, "checkbox");
  }
}

const ATTACKS = [
  "<script>alert(1)</script>",
  "<ScRiPt src=//evil.example/x.js></ScRiPt>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "<style>*{display:none}</style>",
  "<math><mtext><table><mglyph><style><img src onerror=alert(1)>",
  "<!-- --><script>alert(1)</script>",
  "<![CDATA[<script>alert(1)</script>]]>",
  "<?xml version='1.0'?><script/>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](\u0001javascript:alert(1))",
  "[x]( javascript:alert(1) )",
  "[x](<javascript:alert(1)>)",
  "[x](&#106;avascript:alert(1))",
  "[x](&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A;alert(1))",
  "[x](javascript&colon;alert(1))",
  "[x](vbscript:msgbox(1))",
  "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
  "[x](data:image/svg+xml,<svg onload=alert(1)>)",
  "[x](blob:https://x/1)",
  "[x](file:///etc/passwd)",
  "[x](//evil.example)",
  "[x](/v1/models)",
  "[x](#top)",
  "![x](javascript:alert(1))",
  "![x\" onerror=\"alert(1)](https://x.org/a.png)",
  "[x](https://x.org \"onmouseover=alert(1)\")",
  "[x](https://x.org/\"onmouseover=\"alert(1))",
  "<javascript:alert(1)>",
  "<https://x.org/\"><script>alert(1)</script>>",
  "https://x.org/\"><script>alert(1)</script>",
  "https://x.org/'onmouseover='alert(1)",
  "`<script>alert(1)</script>`",
  "```<script>\n<script>alert(1)</script>\n```",
  "```js\"onload=\"alert(1)\nx\n```",
  "```__proto__\nx\n```",
  "```constructor\nx\n```",
  "| <script>alert(1)</script> | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
  "- <script>alert(1)</script>\n- [ ] <img src=x onerror=alert(1)>",
  "> <script>alert(1)</script>",
  "# <script>alert(1)</script>",
  "$<script>alert(1)</script>$",
  "$\\text{<script>alert(1)</script>}$",
  "$\\href{javascript:alert(1)}{x}$",
  "$\\htmlClass{x\" onload=alert(1)}{y}$",
  "$\\style{color:red}{x}$",
  "$\\includegraphics{https://evil.example/x.png}$",
  "$\\def\\a{\\a\\a}\\a$",
  "$$\\begin{<script>}x\\end{<script>}$$",
  "$\\color{red;background:url(https://evil.example)}x$",
  "\\(\\operatorname{<img src=x onerror=alert(1)>}\\)",
  "&lt;script&gt;alert(1)&lt;/script&gt;",
  "&#60;script&#62;alert(1)&#60;/script&#62;",
  "\u202e<script>\u0000alert(1)</script>",
  "<br onclick=alert(1)>",
  "<br/onclick=alert(1)>",
];

test("no attack becomes an element, a handler or an address", () => {
  for (const attack of ATTACKS) {
    assertHarmless(attack);
    for (const [before, after] of [["**", "**"], ["- ", ""], ["> ", ""], ["[", "](https://x.org)"], ["# ", ""], ["a | b\n--|--\n", " | c"]]) {
      assertHarmless(before + attack + after);
    }
  }
});

test("tags are shown as they were written", () => {
  const source = "<script>alert(1)</script> & <b>bold</b>";
  assert.equal(textOf(draw(source)), source);
});

test("pieces of attacks in any order", () => {
  const random = new Random(7);
  const pieces = [
    ...ATTACKS, ..."*_~`[]()<>!|#-+>$\\&:;\"'= \n\t".split(""), "**", "```", "$$", "\\(", "\\)", "\\[", "](", "javascript:", "https://",
    "onerror=", "\n\n", "\n> ", "\n- ", "\n1. ", "\n|--|--|\n", "\\frac{", "}{", "\\begin{matrix}", "\\end{matrix}", "\\left(", "^", "_", "&",
  ];
  for (let round = 0; round < 4000; round++) {
    let source = "";
    for (let count = 1 + random.below(14); count > 0; count--) {
      const piece = random.pick(pieces);
      source += random.below(4) === 0 ? piece.slice(0, 1 + random.below(piece.length)) : piece;
    }
    assertHarmless(source);
  }
});

// What takes a time that grows with the square of the length, or worse, does not end within this timeout.
test("no text takes forever or more than the stack", { timeout: 300_000 }, () => {
  const long = 20_000;
  const texts = [
    "*", "**a", "*a ", "_a_ ", "~~", "`", "[", "](", "[a](", "![", "<", "<a ", "&", "$", "$$", "\\(", "\\[", "> ", "- ", "  - a\n", "1. ", "#", "|", "| a ",
    "a|b\n-|-\n", "\\[\n", "$$\na\n", "```\n", "* * ", "*_~", "[*", "*a **b ", "http://", "http://a)", "\\", "\n", "a\n- ", "((", "`a``",
    "$\\frac{", "<br>", "https://a.b/)(", "&#6", "x^{", "\t- a\n",
  ].map((piece) => piece.repeat(long / piece.length));
  texts.push(
    Array.from({ length: 300 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n"),
    Array.from({ length: 300 }, (_, depth) => `${"> ".repeat(depth)}a`).join("\n"),
    `$$${"\\frac{".repeat(3_000)}$$`,
    `$$${"{".repeat(long)}$$`,
    `$$${"x^".repeat(long / 2)}$$`,
    `$$${"\\left(".repeat(3_000)}$$`,
    `$$${"\\begin{matrix}".repeat(1_500)}$$`,
    "*a ".repeat(long / 6) + "a* ".repeat(long / 6),
    Array.from({ length: 300 }, (_, count) => "`".repeat(count)).join(" "),
  );
  for (const text of texts) {
    assertHarmless(text);
  }
});
