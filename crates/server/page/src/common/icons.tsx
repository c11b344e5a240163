/** Icons as strokes on a grid of 24, in the colour of the text around them. */
import type { VNode } from "preact";

const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M16.2 16.2 20 20",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  branch: "M7 4v16M7 14c6 0 10-2 10-7M14 9l3-3 3 3",
  left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  upload: "M12 15V4M7 9l5-5 5 5M5 20h14",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  tokens: "M4 8h6v8H4zM10 8h10v8H10zM15 8v8",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  help: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 17h.01",
  plot: "M4 4v16h16M7 15l4-5 3 3 5-7",
  close: "M6 6l12 12M18 6L6 18",
  play: "M8 5l11 7-11 7z",
  key: "M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8M11 12l8-8M16 7l3 3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): VNode {
  return (
    <svg class="glyph" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The sign of the program: a live coal. */
export function Coal(): VNode {
  return (
    <svg class="coal" viewBox="0 0 24 24" aria-hidden="true">
      <path class="stone" d="M5 8.5 9.5 4l6.5.5L20.5 9l-.5 7-4.5 4.5L8 20l-4-4.5z" />
      <path class="glow" d="M9 9.5 12.5 8l3 2 .5 3.5-3 3-3.5-1L8 12.5z" />
    </svg>
  );
}
