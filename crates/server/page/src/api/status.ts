/**
 * What the server says of itself: `GET /status.json`. This file is the format's definition; the server follows it.
 *
 * `?since=TIME` asks only for samples with `time > TIME`, so that a page that polls each second is sent one sample,
 * not five minutes of them. A server may answer all samples regardless; samples are told apart by their time.
 */

export interface Status {
  /** The model that answers when a request names none; of several, the first. */
  model: string;
  /** Length of the interval that a sample sums up. */
  interval_seconds: number;
  /** Oldest first, one for each interval of the last minutes, also of those in which nothing happened. */
  samples: Sample[];
}

export interface Sample {
  /** End of the interval, in seconds since 1970. */
  time: number;
  /** Tokens generated in the interval, of all requests. */
  generated_tokens: number;
  /** Tokens of prompts that were computed in the interval. */
  prompt_tokens: number;
  /** Tokens of prompts that were found in the prefix cache in the interval, instead of being computed. */
  cached_tokens: number;
  /** Requests being computed and requests in the queue, at the end of the interval. */
  running: number;
  waiting: number;
  /** Mean rows of a step, prompt and generated tokens together; 0 when no step ran. */
  rows: number;
  /** Pages of the key-value cache, at the end: used by requests or the prefix cache, in all, of the prefix cache. */
  pages_used: number;
  pages_total: number;
  pages_cached: number;
  /** Seconds from a request's arrival to its first token, and from token to token; null when there was none. */
  first_token_p50: number | null;
  first_token_p95: number | null;
  between_tokens_p50: number | null;
  between_tokens_p95: number | null;
}

/** How many samples a page keeps: five minutes. */
export const KEPT_SAMPLES = 300;

/** Samples of the past with those just heard, each interval once, oldest first, no more than `KEPT_SAMPLES`. */
export function merge(past: readonly Sample[], heard: readonly Sample[]): Sample[] {
  const newest = past.at(-1)?.time ?? -Infinity;
  return [...past, ...heard.filter((sample) => sample.time > newest)].slice(-KEPT_SAMPLES);
}
