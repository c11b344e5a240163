/** The chat page as a whole: what stands where, what is open, and the keys that work everywhere. */
import type { VNode } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { setApiKey } from "../api/client";
import * as tree from "../conversation/tree";
import { KeyDialog } from "../common/key";
import { nextTheme, setTheme, theme } from "../common/theme";
import { Composer } from "./composer";
import { Header } from "./header";
import { HelpDialog } from "./help";
import { Messages } from "./messages";
import type { ChatModel } from "./model";
import { SettingsPanel } from "./settings";
import { action, type Action } from "./shortcuts";
import { Sidebar } from "./sidebar";
import { Strip } from "./strip";

export function App({ model }: { model: ChatModel }): VNode {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => model.subscribe(() => redraw(undefined)), [model]);
  const [drawer, setDrawer] = useState(false);
  const [settings, setSettings] = useState(false);
  const [help, setHelp] = useState(false);
  const [chosenTheme, setChosenTheme] = useState(theme());
  const composer = useRef<HTMLTextAreaElement>(null);
  const search = useRef<HTMLInputElement>(null);

  const start = () => {
    model.start();
    setDrawer(false);
  };
  const open = (id: string) => {
    model.open(id);
    setDrawer(false);
    composer.current?.focus();
  };
  const switchTheme = () => {
    setTheme(nextTheme(chosenTheme));
    setChosenTheme(theme());
  };
  const neighbour = (steps: number) => {
    const index = model.conversations.findIndex((one) => one.id === model.current.id);
    const next = model.conversations[index < 0 ? 0 : index + steps];
    if (next) open(next.id);
  };
  /** Closes what was opened last, or stops the answer: what Escape is for. */
  const escape = () => {
    if (settings) setSettings(false);
    else if (drawer) setDrawer(false);
    else if (model.isAnswering()) model.stop();
  };
  const actions: Record<Action, () => void> = {
    new: start,
    search: () => {
      setDrawer(true);
      search.current?.focus();
    },
    settings: () => setSettings(!settings),
    tokens: () => model.setTokenView(!model.tokenView),
    theme: switchTheme,
    help: () => setHelp(true),
    compose: () => composer.current?.focus(),
    previous: () => neighbour(-1),
    next: () => neighbour(1),
    escape,
  };

  const current = useRef(actions);
  current.current = actions;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const wanted = action(event);
      if (!wanted) return;
      event.preventDefault();
      current.current[wanted]();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);

  useEffect(() => {
    document.title = `${tree.title(model.current)} · gleed`;
  });

  return (
    <div class={`app ${drawer ? "drawer-open" : ""} ${settings ? "settings-open" : ""}`}>
      <a class="skip" href="#composer">
        Skip to the message box
      </a>
      <Sidebar
        model={model}
        searchBox={search}
        theme={chosenTheme}
        onStart={start}
        onOpen={open}
        onTheme={switchTheme}
        onHelp={() => setHelp(true)}
        onClose={() => setDrawer(false)}
      />
      <div class="shade" onClick={() => setDrawer(false)} />
      <main>
        <Header
          model={model}
          settingsOpen={settings}
          onMenu={() => setDrawer(!drawer)}
          onStart={start}
          onSettings={() => setSettings(!settings)}
        />
        {model.problem && (
          <div class="problem" role="alert">
            <span>{model.problem}</span>
            <button type="button" onClick={() => model.report(null)}>
              Close
            </button>
          </div>
        )}
        <Messages model={model} onSuggest={(text) => void model.send(text)} />
        <Composer key={model.current.id} model={model} box={composer} />
        <Strip />
      </main>
      {settings && <SettingsPanel model={model} onClose={() => setSettings(false)} />}
      {help && <HelpDialog onClose={() => setHelp(false)} />}
      {model.keyNeeded && (
        <KeyDialog
          onKey={(key) => {
            setApiKey(key);
            void model.keyGiven();
          }}
        />
      )}
    </div>
  );
}
