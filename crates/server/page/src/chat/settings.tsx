/** The settings of a conversation. A field left empty is not sent: the server and the model have their own mind. */
import type { VNode } from "preact";
import type { Settings } from "../conversation/types";
import { Icon } from "../common/icons";
import type { ChatModel } from "./model";

type NumberName = "temperature" | "topP" | "topK" | "minP" | "maxTokens" | "seed";

interface NumberField {
  name: NumberName;
  label: string;
  hint: string;
  min: number;
  max?: number;
  step: number;
}

const NUMBERS: readonly NumberField[] = [
  { name: "temperature", label: "Temperature", hint: "0 always takes the likeliest token", min: 0, max: 2, step: 0.05 },
  { name: "topP", label: "Top p", hint: "only the likeliest, up to this probability together", min: 0, max: 1, step: 0.01 },
  { name: "topK", label: "Top k", hint: "only so many of the likeliest", min: 0, step: 1 },
  { name: "minP", label: "Min p", hint: "none below this share of the likeliest", min: 0, max: 1, step: 0.01 },
  { name: "maxTokens", label: "Most tokens", hint: "where an answer is cut off", min: 1, step: 1 },
  { name: "seed", label: "Seed", hint: "same seed, same answer", min: 0, step: 1 },
];

const EFFORTS = ["none", "minimal", "low", "medium", "high"];

interface Properties {
  model: ChatModel;
  onClose: () => void;
}

export function SettingsPanel({ model, onClose }: Properties): VNode {
  const { settings } = model.current;
  const set = (changes: { [K in keyof Settings]?: Settings[K] | undefined }) => {
    const next = { ...settings, ...changes };
    model.set(Object.fromEntries(Object.entries(next).filter(([, value]) => value !== undefined)) as unknown as Settings);
  };
  return (
    <aside class="settings" aria-label="Settings">
      <div class="panel-head">
        <h2>Settings</h2>
        <button type="button" class="icon" aria-label="Close settings" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <label>
        System prompt
        <textarea
          rows={5}
          placeholder="Who the model is to be, and how it is to answer"
          value={settings.system}
          onInput={(event) => set({ system: event.currentTarget.value })}
        />
      </label>
      <div class="grid">
        {NUMBERS.map((field) => (
          <label key={field.name} title={field.hint}>
            {field.label}
            <input
              type="number"
              inputMode="decimal"
              min={field.min}
              max={field.max}
              step={field.step}
              placeholder="default"
              value={settings[field.name] ?? ""}
              onInput={(event) => {
                const { value, valueAsNumber } = event.currentTarget;
                set({ [field.name]: value === "" || Number.isNaN(valueAsNumber) ? undefined : valueAsNumber });
              }}
            />
            <small>{field.hint}</small>
          </label>
        ))}
      </div>
      <label>
        Reasoning effort
        <select
          value={settings.reasoningEffort ?? ""}
          onChange={(event) => set({ reasoningEffort: event.currentTarget.value || undefined })}
        >
          <option value="">default</option>
          {EFFORTS.map((effort) => (
            <option key={effort} value={effort}>
              {effort}
            </option>
          ))}
        </select>
      </label>
      <div class="buttons">
        <button type="button" onClick={() => model.set({ system: "", ...(settings.model && { model: settings.model }) })}>
          Back to defaults
        </button>
      </div>
      <p class="note">New conversations begin with what is set here.</p>
    </aside>
  );
}
