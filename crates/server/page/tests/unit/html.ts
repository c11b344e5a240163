/** Draws a view into HTML as the browser would have it, to be read by tests. Buttons and icons are left out. */
import type { ComponentChild, VNode } from "preact";
import { block } from "../../src/markdown/view";
import { parseMarkdown } from "../../src/markdown/blocks";

export interface Drawn {
  tag: string;
  attributes: Record<string, unknown>;
  children: (Drawn | string)[];
}

/** The elements of a text in Markdown. */
export function draw(source: string): (Drawn | string)[] {
  return parseMarkdown(source).flatMap((node, index) => expand(block(node, index)));
}

export function html(source: string): string {
  return draw(source).map(write).join("");
}

function expand(child: ComponentChild): (Drawn | string)[] {
  if (child === null || child === undefined || typeof child === "boolean") return [];
  if (typeof child !== "object") return [String(child)];
  if (Array.isArray(child)) return child.flatMap(expand);
  const { type, props } = child as VNode<Record<string, unknown>>;
  const { children, ...attributes } = props;
  if (typeof type === "string") return [{ tag: type, attributes, children: expand(children as ComponentChild) }];
  const component = type as { prototype?: { render?: unknown } } & ((properties: object) => ComponentChild);
  // Those with a state of their own are buttons.
  if (component.prototype?.render) return [];
  return expand(component(props));
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function write(node: Drawn | string): string {
  if (typeof node === "string") return escape(node);
  const attributes = Object.entries(node.attributes)
    .filter(([, value]) => value !== undefined && value !== false && value !== "")
    .map(([name, value]) => (value === true ? ` ${name}` : ` ${name}="${escape(String(value))}"`));
  const inside = node.children.map(write).join("");
  return `<${node.tag}${attributes.join("")}>${inside}${["br", "hr", "input"].includes(node.tag) ? "" : `</${node.tag}>`}`;
}

/** Every element below some nodes. */
export function* elements(nodes: readonly (Drawn | string)[]): Generator<Drawn> {
  for (const node of nodes) {
    if (typeof node === "string") continue;
    yield node;
    yield* elements(node.children);
  }
}

/** The text of some nodes. */
export function textOf(nodes: readonly (Drawn | string)[]): string {
  return nodes.map((node) => (typeof node === "string" ? node : textOf(node.children))).join("");
}
