/** What is plotted: lines over time, out of the server's samples. */
import type { Sample } from "../api/status";
import * as format from "../common/format";

export interface Line {
  name: string;
  /** Its colour in the style sheet, from 1. */
  colour: number;
  /** null where there is nothing to say. */
  value: (sample: Sample, index: number, samples: readonly Sample[]) => number | null;
}

export interface Chart {
  title: string;
  /** What the axis counts, for people. */
  unit: string;
  format: (value: number) => string;
  /** The axis goes at least up to here. */
  least: number;
  lines: Line[];
}

/** Hits of the cache are rare events: their share is that of this many seconds up to a moment. */
const CACHE_SECONDS = 30;

function cacheShare(_: Sample, index: number, samples: readonly Sample[]): number | null {
  const recent = samples.slice(Math.max(0, index + 1 - CACHE_SECONDS), index + 1);
  const prompts = recent.reduce((sum, sample) => sum + sample.prompt_tokens, 0);
  return prompts === 0 ? null : recent.reduce((sum, sample) => sum + sample.cached_tokens, 0) / prompts;
}

export const CHARTS: readonly Chart[] = [
  {
    title: "Throughput",
    unit: "tokens/s",
    format: format.number,
    least: 10,
    lines: [
      { name: "generated", colour: 1, value: (sample) => sample.generated_tokens },
      { name: "prompts computed", colour: 2, value: (sample) => sample.prompt_tokens - sample.cached_tokens },
      { name: "prompts cached", colour: 3, value: (sample) => sample.cached_tokens },
    ],
  },
  {
    title: "Time to first token",
    unit: "mean of each second",
    format: format.seconds,
    least: 0.01,
    lines: [{ name: "first token", colour: 1, value: (sample) => sample.first_token_seconds }],
  },
  {
    title: "Time between tokens",
    unit: "mean of each second",
    format: format.seconds,
    least: 0.001,
    lines: [{ name: "between tokens", colour: 1, value: (sample) => sample.between_tokens_seconds }],
  },
  {
    title: "Requests",
    unit: "at once",
    format: format.number,
    least: 4,
    lines: [
      { name: "running", colour: 1, value: (sample) => sample.running },
      { name: "waiting", colour: 2, value: (sample) => sample.waiting },
    ],
  },
  {
    title: "Batch",
    unit: "rows a step",
    format: format.number,
    least: 4,
    lines: [{ name: "rows", colour: 1, value: (sample) => sample.rows_per_step }],
  },
  {
    title: "Pages of the KV cache",
    unit: "pages",
    format: format.number,
    least: 4,
    lines: [
      { name: "held", colour: 1, value: (sample) => sample.pages_used },
      { name: "of these, only cached", colour: 3, value: (sample) => sample.pages_cached },
      { name: "in all", colour: 4, value: (sample) => sample.pages_total },
    ],
  },
  {
    title: "Prefix cache",
    unit: `share of prompts found, ${CACHE_SECONDS} s`,
    format: format.share,
    least: 1,
    lines: [{ name: "found", colour: 3, value: cacheShare }],
  },
  {
    title: "Answers",
    unit: "requests/s",
    format: format.number,
    least: 2,
    lines: [
      { name: "ended", colour: 1, value: (sample) => sample.requests },
      { name: "of these, failed", colour: 2, value: (sample) => sample.failures },
    ],
  },
];

/** Round values for an axis from 0 up to at least `most`: three to five of them. */
export function ticks(most: number): number[] {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999)!;
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}

/** Which values stand alone, with nothing on either side: a line would not show them. */
export function alone(values: readonly (number | null)[]): number[] {
  return values.flatMap((value, index) =>
    value !== null && values[index - 1] == null && values[index + 1] == null ? [index] : [],
  );
}

/** An SVG path through values; a null breaks the line. */
export function linePath(values: readonly (number | null)[], x: (index: number) => number, y: (value: number) => number): string {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const before = index > 0 ? values[index - 1] : null;
    const at = `${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    path += `${before == null ? "M" : "L"}${at}`;
  });
  return path;
}
