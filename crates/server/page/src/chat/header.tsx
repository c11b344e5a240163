/** The line above the messages: which conversation, which model, and what can be switched. */
import type { VNode } from "preact";
import * as tree from "../conversation/tree";
import { Icon } from "../common/icons";
import type { ChatModel } from "./model";

interface Properties {
  model: ChatModel;
  settingsOpen: boolean;
  onMenu: () => void;
  onStart: () => void;
  onSettings: () => void;
}

export function Header({ model, settingsOpen, onMenu, onStart, onSettings }: Properties): VNode {
  const { current } = model;
  const chosen = model.modelOf(current);
  return (
    <header>
      <button type="button" class="icon phone" aria-label="Conversations" onClick={onMenu}>
        <Icon name="menu" />
      </button>
      <h1 title={tree.title(current)}>{tree.title(current)}</h1>
      <select
        class="models"
        aria-label="Model"
        title="Model"
        value={chosen}
        disabled={model.models.length === 0}
        onChange={(event) => model.set({ ...current.settings, model: event.currentTarget.value })}
      >
        {model.models.length === 0 && <option value="">no model</option>}
        {model.models.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="icon"
        aria-label="Token view"
        title="Token view: what else the model could have said (Alt+T)"
        aria-pressed={model.tokenView}
        onClick={() => model.setTokenView(!model.tokenView)}
      >
        <Icon name="tokens" />
      </button>
      <button
        type="button"
        class="icon"
        aria-label="Settings"
        title="Settings (Alt+S)"
        aria-expanded={settingsOpen}
        onClick={onSettings}
      >
        <Icon name="sliders" />
      </button>
      <button type="button" class="icon phone" aria-label="New conversation" onClick={onStart}>
        <Icon name="plus" />
      </button>
    </header>
  );
}
