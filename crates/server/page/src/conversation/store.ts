/**
 * Where conversations are kept: IndexedDB of the browser, one record for each conversation. Where there is none (some
 * private windows), memory, and the page says so.
 */
import type { Conversation } from "./types";

export interface Store {
  /** All conversations, in no order. */
  all(): Promise<Conversation[]>;
  put(conversation: Conversation): Promise<void>;
  remove(id: string): Promise<void>;
}

export class MemoryStore implements Store {
  private records = new Map<string, Conversation>();

  async all(): Promise<Conversation[]> {
    return [...this.records.values()].map((record) => structuredClone(record));
  }

  async put(conversation: Conversation): Promise<void> {
    this.records.set(conversation.id, structuredClone(conversation));
  }

  async remove(id: string): Promise<void> {
    this.records.delete(id);
  }
}

const TABLE = "conversations";

export class BrowserStore implements Store {
  private constructor(private readonly database: IDBDatabase) {}

  static open(name = "gleed"): Promise<BrowserStore> {
    return new Promise((resolve, reject) => {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: "id" });
      opening.onsuccess = () => resolve(new BrowserStore(opening.result));
      opening.onerror = () => reject(opening.error ?? new Error("The browser's storage cannot be opened."));
    });
  }

  async all(): Promise<Conversation[]> {
    let records: Conversation[] = [];
    await this.work("readonly", (table) => {
      const getting = table.getAll() as IDBRequest<Conversation[]>;
      getting.onsuccess = () => (records = getting.result);
    });
    return records;
  }

  put(conversation: Conversation): Promise<void> {
    return this.work("readwrite", (table) => table.put(conversation));
  }

  remove(id: string): Promise<void> {
    return this.work("readwrite", (table) => table.delete(id));
  }

  /** Done when the transaction is on its way to the disk, not only asked for. */
  private work(mode: IDBTransactionMode, step: (table: IDBObjectStore) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(TABLE, mode);
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () =>
        reject(transaction.error ?? new Error("The browser did not keep the conversation."));
      step(transaction.objectStore(TABLE));
    });
  }
}
