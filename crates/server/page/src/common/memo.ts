/** A component that is drawn again only when one of its properties is another object. */
import { Component, h, type ComponentChild, type VNode } from "preact";

export function memo<P extends object>(draw: (properties: P) => VNode): (properties: P) => VNode {
  class Kept extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([key, value]) => before[key] !== value);
    }

    override render(): ComponentChild {
      return h(draw as (properties: object) => VNode, this.props);
    }
  }
  return (properties) => h(Kept as unknown as new (properties: object) => Component, properties as object);
}
