/** Small texts that the browser keeps; where it does not want to, they last as long as the page. */
class Kept {
  private readonly memory = new Map<string, string>();

  /** The area is asked for each time: a browser that forbids it does so at that moment. */
  constructor(private readonly area: () => Storage) {}

  get(key: string): string | null {
    try {
      return this.area().getItem(key) ?? this.memory.get(key) ?? null;
    } catch {
      return this.memory.get(key) ?? null;
    }
  }

  /** Keeps a text, or forgets it (null). */
  set(key: string, text: string | null): void {
    this.memory.delete(key);
    try {
      if (text === null) this.area().removeItem(key);
      else this.area().setItem(key, text);
    } catch {
      if (text !== null) this.memory.set(key, text);
    }
  }
}

/** Of this browser, and of this tab alone. */
export const ofBrowser = new Kept(() => localStorage);
export const ofTab = new Kept(() => sessionStorage);
