/** Keys that work everywhere on the page. Letters are told by their place, so that Alt may write what it likes. */

export type Action =
  | "new"
  | "search"
  | "settings"
  | "tokens"
  | "theme"
  | "help"
  | "compose"
  | "previous"
  | "next"
  | "escape";

export const SHORTCUTS: readonly { keys: string; does: string }[] = [
  { keys: "Enter", does: "Send the message" },
  { keys: "Shift + Enter", does: "A new line" },
  { keys: "↑", does: "In an empty message box: edit your last message" },
  { keys: "Esc", does: "Stop the answer, close what is open" },
  { keys: "/", does: "To the message box" },
  { keys: "Ctrl + K", does: "Search conversations" },
  { keys: "Alt + N", does: "New conversation" },
  { keys: "Alt + ↑ ↓", does: "The conversation above, below" },
  { keys: "Alt + S", does: "Settings" },
  { keys: "Alt + T", does: "Token view" },
  { keys: "← →", does: "In the token view: from token to token; Enter for its alternatives" },
  { keys: "Alt + L", does: "Light, dark, or as the system" },
  { keys: "?", does: "This list" },
];

const WITH_ALT: Record<string, Action> = {
  KeyN: "new",
  KeyS: "settings",
  KeyT: "tokens",
  KeyL: "theme",
  ArrowUp: "previous",
  ArrowDown: "next",
};

type Press = Pick<KeyboardEvent, "key" | "code" | "altKey" | "ctrlKey" | "metaKey" | "defaultPrevented" | "target">;

/** What a press asks for; null when it is the browser's or another element's, or text. */
export function action(press: Press): Action | null {
  if (press.defaultPrevented) return null;
  const command = press.ctrlKey || press.metaKey;
  if (press.altKey) return command ? null : (WITH_ALT[press.code] ?? null);
  if (command) return press.code === "KeyK" ? "search" : null;
  if (press.key === "Escape") return "escape";
  if (isTyping(press.target)) return null;
  return press.key === "/" ? "compose" : press.key === "?" ? "help" : null;
}

function isTyping(target: EventTarget | null): boolean {
  const name = (target as { tagName?: string } | null)?.tagName;
  return name === "INPUT" || name === "TEXTAREA" || name === "SELECT";
}
