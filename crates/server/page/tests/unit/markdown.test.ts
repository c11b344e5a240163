import assert from "node:assert/strict";
import test from "node:test";
import { parseMarkdown, splitBlocks } from "../../src/markdown/blocks";
import { html } from "./html";

function becomes(source: string, expected: string): void {
  assert.equal(html(source), expected, source);
}

const LINK = 'target="_blank" rel="noopener noreferrer nofollow"';

test("paragraphs keep their lines", () => {
  becomes("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>");
  becomes("one\r\ntwo\rthree", "<p>one<br>two<br>three</p>");
  becomes("", "");
  becomes("\n \n", "");
});

test("headings", () => {
  becomes("# One", '<h3 class="level1">One</h3>');
  becomes("###### Six ##", '<h6 class="level6">Six</h6>');
  becomes("#hash\n####### seven", "<p>#hash<br>####### seven</p>");
  becomes("# C#", '<h3 class="level1">C#</h3>');
});

test("emphasis", () => {
  becomes("*a* **b** ***c*** ~~d~~ _e_ __f__", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <em>e</em> <strong>f</strong></p>");
  becomes("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>");
  becomes("**bold with *inner* text**", "<p><strong>bold with <em>inner</em> text</strong></p>");
  becomes("**open", "<p>**open</p>");
  becomes("\\*no\\* `*code*`", "<p>*no* <code>*code*</code></p>");
  becomes("*a**b*", "<p><em>a**b</em></p>");
  becomes("**「漢字」**です", "<p>**「漢字」**です</p>");
});

test("code", () => {
  becomes("`` a`b `` and `x", "<p><code>a`b</code> and `x</p>");
  const block = (language: string, inside: string) =>
    `<figure class="code"><figcaption><span>${language}</span></figcaption><pre tabIndex="0"><code>${inside}</code></pre></figure>`;
  becomes("```python\nx = 1 # one\n```", block("python", 'x = <span class="code-number">1</span> <span class="code-comment"># one</span>'));
  becomes("~~~\na\n```\nb\n~~~\nafter", `${block("text", "a\n```\nb")}<p>after</p>`);
  becomes("````md\n```\n````", block("md", "```"));
  becomes("- item\n  ```\n  code\n  ```", `<ul><li>item${block("text", "code")}</li></ul>`);
  // While it comes: no end yet.
  becomes("```js\nlet", block("js", '<span class="code-keyword">let</span>'));
});

test("lists", () => {
  becomes("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>");
  becomes("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>');
  becomes("1. a\n  - b\n2. c", '<ol start="1"><li>a<ul><li>b</li></ul></li><li>c</li></ol>');
  becomes("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>");
  becomes("text\n- a", "<p>text</p><ul><li>a</li></ul>");
  becomes("In 1986\n1986. was a year", "<p>In 1986<br>1986. was a year</p>");
  becomes("- [x] done\n- [ ] open", '<ul><li class="task"><input type="checkbox" checked disabled aria-label="done">done</li><li class="task"><input type="checkbox" disabled aria-label="to do">open</li></ul>');
  becomes("- a\ngoes on", "<ul><li>a<br>goes on</li></ul>");
  becomes("* a\n- b", "<ul><li>a</li></ul><ul><li>b</li></ul>");
  becomes("- - a", "<ul><li><ul><li>a</li></ul></li></ul>");
  becomes("1. a\n\n   b\n\nc", '<ol start="1"><li><p>a</p><p>b</p></li></ol><p>c</p>');
});

test("rules, quotes", () => {
  becomes("a\n\n---\n***\n_ _ _", "<p>a</p><hr><hr><hr>");
  becomes("> a\n> > b\n>\n> c", "<blockquote><p>a</p><blockquote><p>b</p></blockquote><p>c</p></blockquote>");
});

test("tables", () => {
  becomes(
    "| a | b |\n|:--|--:|\n| 1 | `x|y` |\n| 2 \\| 3 |\n\nend",
    '<div class="table" role="region" aria-label="Table" tabIndex="0"><table><thead><tr><th class="left">a</th><th class="right">b</th></tr></thead>' +
      '<tbody><tr><td class="left">1</td><td class="right"><code>x|y</code></td></tr><tr><td class="left">2 | 3</td><td class="right"></td></tr></tbody></table></div><p>end</p>',
  );
  becomes("a | b\n--- | ---\n1<br>2 | 3 | 4", '<div class="table" role="region" aria-label="Table" tabIndex="0"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1<br>2</td><td>3</td></tr></tbody></table></div>');
  becomes("a | b\n---", "<p>a | b</p><hr>");
});

test("links", () => {
  becomes("[a *b*](https://x.org/?a=1&b=2 \"title\")", `<p><a href="https://x.org/?a=1&#38;b=2" ${LINK}>a <em>b</em></a></p>`);
  becomes("see https://x.org/a_(b). Then", `<p>see <a href="https://x.org/a_(b)" ${LINK}>https://x.org/a_(b)</a>. Then</p>`);
  becomes("(https://x.org)", `<p>(<a href="https://x.org/" ${LINK}>https://x.org</a>)</p>`);
  becomes("<https://x.org> <mailto:a@b.c>", `<p><a href="https://x.org/" ${LINK}>https://x.org</a> <a href="mailto:a@b.c" ${LINK}>mailto:a@b.c</a></p>`);
  becomes("[a](relative/path) [b]", "<p>[a](relative/path) [b]</p>");
  becomes("![picture](https://x.org/p.png)", `<p><a href="https://x.org/p.png" ${LINK}>picture</a></p>`);
  becomes("[a [b](https://x.org) c](https://y.org)", `<p>[a <a href="https://x.org/" ${LINK}>b</a> c](<a href="https://y.org/" ${LINK}>https://y.org</a>)</p>`);
});

test("entities", () => {
  becomes("&lt;b&gt; &amp;amp; &#65;&#x42; &nope;", "<p>&#60;b&#62; &#38;amp; AB &#38;nope;</p>");
});

test("maths within text, and money", () => {
  const kinds = (source: string) =>
    parseMarkdown(source).flatMap((block) => ("children" in block ? block.children.map((child) => child.kind) : block.kind));
  assert.deepEqual(kinds("so $x^2$ and \\(y\\) and $$z$$."), ["text", "maths", "text", "maths", "text", "maths", "text"]);
  assert.deepEqual(kinds("from $5 to $10, or $ 3 $"), ["text"]);
  assert.deepEqual(kinds("$$\nx = 1\n$$"), ["maths"]);
  assert.deepEqual(kinds("\\[\nx\n\\]\nafter"), ["maths", "text"]);
  assert.deepEqual(parseMarkdown("$$\nx ="), [{ kind: "maths", text: "x =", closed: false }]);
});

test("a growing answer changes its last part only", () => {
  const source = "# Title\n\nA paragraph\nof lines.\n\n- a\n- b\n\n```js\nlet x;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\nx\n$$\n\nend";
  let before: string[] = [];
  for (let length = 1; length <= source.length; length++) {
    const parts = splitBlocks(source.slice(0, length));
    assert.deepEqual(parts.slice(0, before.length - 1), before.slice(0, -1));
    before = parts;
  }
  assert.equal(before.length, 7);
  assert.deepEqual(parseMarkdown(source).length, 7);
});
