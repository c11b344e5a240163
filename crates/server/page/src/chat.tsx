/** The chat page: what is kept, the server, and the first picture. */
import { render } from "preact";
import { answer } from "./api/chat";
import { models, reason } from "./api/client";
import { App } from "./chat/app";
import { ChatModel, KEEP_EVERY, PICTURE_EVERY } from "./chat/model";
import { BrowserStore, MemoryStore, type Store } from "./conversation/store";
import type { Conversation, Settings } from "./conversation/types";

const SETTINGS = "gleed.settings";
const OPEN = "gleed.open";
const UNKEPT = "gleed.unkept";

function keptSettings(): Settings {
  try {
    return { system: "", ...(JSON.parse(localStorage.getItem(SETTINGS) ?? "{}") as Partial<Settings>) };
  } catch {
    return { system: "" };
  }
}

/** A page that goes away has no time for IndexedDB: what grows at that moment is left where writing is done at once. */
function keepUnkept(): void {
  try {
    const unkept = model.unkept();
    if (unkept.length > 0) localStorage.setItem(UNKEPT, JSON.stringify(unkept));
  } catch {
    // Too long for this place: the store has it as it was a second ago.
  }
}

function restoreUnkept(): void {
  const unkept = localStorage.getItem(UNKEPT);
  if (unkept) model.restore(JSON.parse(unkept) as Conversation[]);
  localStorage.removeItem(UNKEPT);
}

let store: Store = new MemoryStore();
let problem: string | null = null;
try {
  store = await BrowserStore.open();
} catch (error) {
  problem = `This browser keeps no conversations: ${reason(error)} Export those you want to keep.`;
}

const model = new ChatModel(
  { store, answer, models, pictureEvery: PICTURE_EVERY, keepEvery: KEEP_EVERY },
  keptSettings(),
);
if (problem) model.report(problem);
await model.load();
restoreUnkept();
const lastOpen = sessionStorage.getItem(OPEN);
if (lastOpen) model.open(lastOpen);

// Other tabs are told of what was kept here, and this one looks when it is told.
const others = new BroadcastChannel("gleed");
model.onKept = () => others.postMessage("kept");
others.onmessage = () => void model.load();

model.subscribe(() => {
  sessionStorage.setItem(OPEN, model.current.id);
  localStorage.setItem(SETTINGS, JSON.stringify(model.settings));
});
addEventListener("pagehide", () => {
  void model.keep();
  keepUnkept();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) void model.keep();
});

render(<App model={model} />, document.body);
void model.loadModels();
