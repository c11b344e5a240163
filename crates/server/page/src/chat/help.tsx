/** The list of keys to press. */
import type { VNode } from "preact";
import { Dialog } from "../common/dialog";
import { Icon } from "../common/icons";
import { SHORTCUTS } from "./shortcuts";

export function HelpDialog({ onClose }: { onClose: () => void }): VNode {
  return (
    <Dialog label="Keyboard" onClose={onClose}>
      <div class="panel-head">
        <h2>Keyboard</h2>
        <button type="button" class="icon" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <dl class="keys">
        {SHORTCUTS.map(({ keys, does }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
