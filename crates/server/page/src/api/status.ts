/**
 * What the server says of itself: `GET /status.json`, of which this is what the pages read. Samples are one a second;
 * `?since=TIME` asks only for those with a later time, so that a page that asks each second is sent one of them.
 */

export interface Status {
  models: ModelStatus[];
  /** Oldest first, one for each second of the last minutes, also of those in which nothing happened. */
  samples: Sample[];
}

export interface ModelStatus {
  id: string;
  loaded: boolean;
  /** Most tokens of prompt and answer together, of a model that is loaded. */
  context?: number;
}

/** One second, of all models together. */
export interface Sample {
  /** Seconds since 1970. */
  time: number;
  /** Requests being computed and requests in the queue, at the end of the second. */
  running: number;
  waiting: number;
  /** Pages of the key-value cache, at the end: held; of these, only kept for prompts that begin alike; in all. */
  pages_used: number;
  pages_cached: number;
  pages_total: number;
  /** Tokens generated in the second. */
  generated_tokens: number;
  /** Tokens of prompts that began in the second, and of these, those that the prefix cache had. */
  prompt_tokens: number;
  cached_tokens: number;
  /** Mean rows of a step; null when there was none. */
  rows_per_step: number | null;
  /** Mean seconds from a request's arrival to its first token, and from token to token; null when there was none. */
  first_token_seconds: number | null;
  between_tokens_seconds: number | null;
  /** Requests that ended in the second, and those of them that failed. */
  requests: number;
  failures: number;
}

/** How many samples a page keeps: five minutes. */
export const KEPT_SAMPLES = 300;

/** Samples of the past with those just heard, each second once, oldest first, no more than `KEPT_SAMPLES`. */
export function merge(past: readonly Sample[], heard: readonly Sample[]): Sample[] {
  const newest = past.at(-1)?.time ?? -Infinity;
  return [...past, ...heard.filter((sample) => sample.time > newest)].slice(-KEPT_SAMPLES);
}

/** Of the last `seconds`: tokens a second, and the share of prompts' tokens that the cache had (null: no prompts). */
export function summary(samples: readonly Sample[], seconds: number): { generated: number; cached: number | null } {
  const recent = samples.slice(-seconds);
  const sum = (of: (sample: Sample) => number) => recent.reduce((total, sample) => total + of(sample), 0);
  const prompts = sum((sample) => sample.prompt_tokens);
  return {
    generated: recent.length > 0 ? sum((sample) => sample.generated_tokens) / recent.length : 0,
    cached: prompts > 0 ? sum((sample) => sample.cached_tokens) / prompts : null,
  };
}
