/** The chat page: what is kept, the server, and the first picture. */
import { render } from "preact";
import { answer } from "./api/chat";
import { models, reason } from "./api/client";
import { App } from "./chat/app";
import { ChatModel, KEEP_EVERY, PICTURE_EVERY } from "./chat/model";
import { BrowserStore, MemoryStore, type Store } from "./conversation/store";
import type { Conversation, Settings } from "./conversation/types";
import { ofBrowser, ofTab } from "./common/kept";

const SETTINGS = "gleed.settings";
const OPEN = "gleed.open";
const UNKEPT = "gleed.unkept";

function keptSettings(): Settings {
  try {
    return { system: "", ...(JSON.parse(ofBrowser.get(SETTINGS) ?? "{}") as Partial<Settings>) };
  } catch {
    return { system: "" };
  }
}

/** A page that goes away has no time for IndexedDB: what grows at that moment is left where writing is done at once. */
function keepUnkept(): void {
  const unkept = model.unkept();
  // What is too long for this place is in the store as it was a second ago.
  if (unkept.length > 0) ofBrowser.set(UNKEPT, JSON.stringify(unkept));
}

function restoreUnkept(): void {
  const unkept = ofBrowser.get(UNKEPT);
  if (unkept) model.restore(JSON.parse(unkept) as Conversation[]);
  ofBrowser.set(UNKEPT, null);
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
const lastOpen = ofTab.get(OPEN);
if (lastOpen) model.open(lastOpen);

// Other tabs are told of what was kept here, and this one looks when it is told.
const others = new BroadcastChannel("gleed");
model.onKept = () => others.postMessage("kept");
others.onmessage = () => void model.load();

model.subscribe(() => {
  ofTab.set(OPEN, model.current.id);
  ofBrowser.set(SETTINGS, JSON.stringify(model.settings));
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
