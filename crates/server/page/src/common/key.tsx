/** Asks for the key that the server asks for. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog";

export function KeyDialog({ onKey }: { onKey: (key: string) => void }): VNode {
  const [key, setKey] = useState("");
  return (
    <Dialog label="API key">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim()) onKey(key.trim());
        }}
      >
        <h2>This server asks for a key</h2>
        <p>It is kept in this tab only, and forgotten when the tab is closed.</p>
        <input
          type="password"
          aria-label="API key"
          autocomplete="off"
          autofocus
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <div class="buttons">
          <button type="submit" class="main" disabled={!key.trim()}>
            Use this key
          </button>
        </div>
      </form>
    </Dialog>
  );
}
