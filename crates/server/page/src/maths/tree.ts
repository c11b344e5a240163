/** MathML as a tree, before anything is drawn. Elements and attributes are only those that this parser writes. */

export interface MathNode {
  tag: string;
  attributes?: Record<string, string>;
  children: (MathNode | string)[];
}

export function node(tag: string, children: (MathNode | string)[], attributes?: Record<string, string>): MathNode {
  return attributes ? { tag, children, attributes } : { tag, children };
}

/** Several nodes as one. */
export function row(nodes: MathNode[]): MathNode {
  return nodes.length === 1 ? nodes[0]! : node("mrow", nodes);
}

export function operator(text: string, attributes?: Record<string, string>): MathNode {
  return node("mo", [text], attributes);
}

export function space(em: number): MathNode {
  return node("mspace", [], { width: `${em.toFixed(3)}em` });
}
