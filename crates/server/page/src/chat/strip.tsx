/** A line below the message box: what the server is doing right now. */
import type { VNode } from "preact";
import { summary } from "../api/status";
import * as format from "../common/format";
import { useStatus } from "../common/watch";

/** Over how many seconds tokens a second are counted, and hits of the cache. */
const SPEED_SECONDS = 2;
const CACHE_SECONDS = 60;

export function Strip(): VNode {
  const { samples, problem } = useStatus();
  const now = samples.at(-1);
  if (problem || !now) {
    return (
      <div class="strip" role="group" aria-label="Server">
        <span class="dot off" />
        <span class="words">{problem ?? "…"}</span>
      </div>
    );
  }
  const { generated } = summary(samples, SPEED_SECONDS);
  const { cached } = summary(samples, CACHE_SECONDS);
  return (
    <div class="strip" role="group" aria-label="Server">
      <span class={`dot ${now.running > 0 ? "busy" : ""}`} />
      <span>
        <b>{format.number(generated >= 10 ? Math.round(generated) : generated)}</b> tokens/s
      </span>
      <span>
        <b>{now.running}</b> running
      </span>
      <span class={now.waiting > 0 ? "much" : ""}>
        <b>{now.waiting}</b> waiting
      </span>
      <span title="Share of prompts' tokens found in the prefix cache, last minute">
        cache <b>{cached === null ? "–" : format.share(cached)}</b>
      </span>
      <a href="/status">Status</a>
    </div>
  );
}
