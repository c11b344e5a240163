/** The status page: the last minutes of the server, in plots that move on each second. */
import { render, type VNode } from "preact";
import { useState } from "preact/hooks";
import { setApiKey } from "./api/client";
import { summary, type ModelStatus } from "./api/status";
import * as format from "./common/format";
import { Coal, Icon } from "./common/icons";
import { KeyDialog } from "./common/key";
import { nextTheme, setTheme, theme } from "./common/theme";
import { useStatus } from "./common/watch";
import { Plot } from "./status/plot";
import { CHARTS } from "./status/series";

const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

function Page(): VNode {
  const { models, samples, problem, keyNeeded, ask } = useStatus();
  const [colours, setColours] = useState(theme());
  const now = samples.at(-1);
  const speed = summary(samples, 2).generated;
  const cached = summary(samples, 60).cached;
  return (
    <div class="status">
      <header>
        <a class="brand" href="/">
          <Coal />
          <strong>gleed</strong>
        </a>
        <h1>Status</h1>
        <button
          type="button"
          class="icon"
          aria-label={`Colours: ${colours}`}
          title={`Colours: ${colours}`}
          onClick={() => {
            setTheme(nextTheme(colours));
            setColours(theme());
          }}
        >
          <Icon name={THEME_ICONS[colours]} />
        </button>
      </header>
      {problem && (
        <div class="problem" role="alert">
          {problem}
        </div>
      )}
      <dl class="numbers" aria-label="Now">
        <Figure name="tokens/s" value={format.number(speed)} />
        <Figure name="running" value={format.number(now?.running ?? 0)} />
        <Figure name="waiting" value={format.number(now?.waiting ?? 0)} />
        <Figure name="from the cache" value={cached === null ? "–" : format.share(cached)} />
        <Figure name="pages held" value={now && now.pages_total > 0 ? format.share(now.pages_used / now.pages_total) : "–"} />
      </dl>
      <div class="charts">
        {CHARTS.map((chart) => (
          <Plot key={chart.title} chart={chart} samples={samples} />
        ))}
      </div>
      <ul class="models" aria-label="Models">
        {models.map((model) => (
          <Model key={model.id} model={model} />
        ))}
      </ul>
      {keyNeeded && (
        <KeyDialog
          onKey={(key) => {
            setApiKey(key);
            ask();
          }}
        />
      )}
    </div>
  );
}

function Figure({ name, value }: { name: string; value: string }): VNode {
  return (
    <div>
      <dd>{value}</dd>
      <dt>{name}</dt>
    </div>
  );
}

function Model({ model }: { model: ModelStatus }): VNode {
  const state = model.loaded ? "loaded" : "not loaded";
  const context = model.context === undefined ? "" : `, context of ${format.number(model.context)} tokens`;
  return (
    <li>
      <span class={`dot ${model.loaded ? "" : "off"}`} /> <b>{model.id}</b> {state}
      {context}
    </li>
  );
}

render(<Page />, document.body);
