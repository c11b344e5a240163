/** Light, dark, or as the system has it. */
import { ofBrowser } from "./kept";

export type Theme = "system" | "light" | "dark";

const KEY = "gleed.theme";

export function theme(): Theme {
  const kept = ofBrowser.get(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function nextTheme(now: Theme): Theme {
  return now === "system" ? "light" : now === "light" ? "dark" : "system";
}

export function setTheme(chosen: Theme): void {
  ofBrowser.set(KEY, chosen === "system" ? null : chosen);
  applyTheme();
}

/** Tells the style sheet. Called before the first picture, so that nothing flashes. */
export function applyTheme(): void {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
