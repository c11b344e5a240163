/** What the server says of itself, asked for once a second while the page is visible. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, reason, request } from "../api/client";
import { merge, type ModelStatus, type Sample, type Status } from "../api/status";

const EVERY_MILLISECONDS = 1000;

interface Heard {
  models: ModelStatus[];
  samples: Sample[];
  /** Why nothing new is heard; null while all is well. */
  problem: string | null;
  keyNeeded: boolean;
}

export interface Watched extends Heard {
  /** Asks at once: a key was given. */
  ask: () => void;
}

export function useStatus(): Watched {
  const [heard, setHeard] = useState<Heard>({ models: [], samples: [], problem: null, keyNeeded: false });
  const ask = useRef<() => void>(() => undefined);
  useEffect(() => {
    let samples: Sample[] = [];
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listen = async () => {
      if (!document.hidden) {
        try {
          const since = samples.at(-1)?.time;
          const response = await request(`/status.json${since === undefined ? "" : `?since=${since}`}`);
          const status = (await response.json()) as Status;
          samples = merge(samples, status.samples);
          if (!over) setHeard({ models: status.models, samples, problem: null, keyNeeded: false });
        } catch (error) {
          const keyNeeded = error instanceof ApiError && error.status === 401;
          if (!over) setHeard((before) => ({ ...before, problem: reason(error), keyNeeded }));
        }
      }
      if (!over) timer = setTimeout(listen, EVERY_MILLISECONDS);
    };
    ask.current = () => {
      clearTimeout(timer);
      void listen();
    };
    void listen();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return { ...heard, ask: () => ask.current() };
}
