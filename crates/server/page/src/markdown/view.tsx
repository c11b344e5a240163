/**
 * Markdown as elements. Text only ever becomes text nodes and checked attributes: there is no way from an answer to
 * markup of this page.
 */
import { Component, h, type ComponentChild, type VNode } from "preact";
import { parseMaths } from "../maths/parse";
import type { MathNode } from "../maths/tree";
import { CopyButton } from "../common/copy";
import { parseMarkdown, splitBlocks } from "./blocks";
import { highlight } from "./highlight";
import type { Alignment, Block, Inline, Item } from "./tree";

/** A text in Markdown. While it grows, only its last block is parsed and drawn again. */
export function Markdown({ source }: { source: string }): VNode {
  return (
    <div class="markdown">
      {splitBlocks(source).map((part, index) => (
        <Part key={index} source={part} />
      ))}
    </div>
  );
}

class Part extends Component<{ source: string }> {
  override shouldComponentUpdate(next: { source: string }): boolean {
    return next.source !== this.props.source;
  }

  override render(): ComponentChild {
    return <>{parseMarkdown(this.props.source).map(block)}</>;
  }
}

export function block(node: Block, index: number): VNode {
  switch (node.kind) {
    case "paragraph":
      return <p key={index}>{node.children.map(inline)}</p>;
    case "heading":
      // The page has headings of its own above those of an answer.
      return h(`h${Math.min(6, node.level + 2)}`, { key: index, class: `level${node.level}` }, node.children.map(inline));
    case "code":
      return <Code key={index} language={node.language} text={node.text} />;
    case "maths":
      return node.closed ? (
        <div key={index} class="formula">
          {maths(node.text, true)}
        </div>
      ) : (
        <pre key={index} class="unfinished">
          {node.text}
        </pre>
      );
    case "quote":
      return <blockquote key={index}>{node.children.map(block)}</blockquote>;
    case "list":
      return node.start === null ? (
        <ul key={index}>{node.items.map((one, at) => item(one, node.tight, at))}</ul>
      ) : (
        <ol key={index} start={node.start}>
          {node.items.map((one, at) => item(one, node.tight, at))}
        </ol>
      );
    case "table":
      return (
        <div key={index} class="table" role="region" aria-label="Table" tabIndex={0}>
          <table>
            <thead>
              <tr>{node.head.map((cell, column) => tableCell("th", cell, node.alignments[column]!, column))}</tr>
            </thead>
            <tbody>
              {node.rows.map((row, at) => (
                <tr key={at}>{row.map((cell, column) => tableCell("td", cell, node.alignments[column]!, column))}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "rule":
      return <hr key={index} />;
  }
}

function item(one: Item, tight: boolean, index: number): VNode {
  // Paragraphs of a tight list stand without space around them: they are no paragraphs.
  const children = one.children.map((child, at) =>
    tight && child.kind === "paragraph" ? <>{child.children.map(inline)}</> : block(child, at),
  );
  if (one.done === null) return <li key={index}>{children}</li>;
  return (
    <li key={index} class="task">
      <input type="checkbox" checked={one.done} disabled aria-label={one.done ? "done" : "to do"} />
      {children}
    </li>
  );
}

function tableCell(tag: "th" | "td", cell: Inline[], alignment: Alignment, index: number): VNode {
  const Tag = tag;
  return (
    <Tag key={index} class={alignment ?? ""}>
      {cell.map(inline)}
    </Tag>
  );
}

export function inline(node: Inline, index: number): ComponentChild {
  switch (node.kind) {
    case "text":
      return node.text;
    case "code":
      return <code key={index}>{node.text}</code>;
    case "maths":
      return maths(node.text, node.display);
    case "break":
      return <br key={index} />;
    case "emphasis":
      return <em key={index}>{node.children.map(inline)}</em>;
    case "strong":
      return <strong key={index}>{node.children.map(inline)}</strong>;
    case "strike":
      return <del key={index}>{node.children.map(inline)}</del>;
    case "link":
      return (
        <a key={index} href={node.href} target="_blank" rel="noopener noreferrer nofollow">
          {node.children.map(inline)}
        </a>
      );
  }
}

function maths(tex: string, display: boolean): VNode {
  const draw = (node: MathNode): VNode =>
    h(node.tag, node.attributes ?? null, node.children.map((child) => (typeof child === "string" ? child : draw(child))));
  return draw(parseMaths(tex, display));
}

function Code({ language, text }: { language: string; text: string }): VNode {
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={text} label="Copy code" />
      </figcaption>
      <pre tabIndex={0}>
        <code>
          {highlight(text, language).map((span) =>
            span.colour === "plain" ? span.text : <span class={`code-${span.colour}`}>{span.text}</span>,
          )}
        </code>
      </pre>
    </figure>
  );
}
