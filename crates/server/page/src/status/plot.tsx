/** One chart as SVG: lines over the last minutes, an axis, and the values under the pointer. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { KEPT_SAMPLES, type Sample } from "../api/status";
import { alone, linePath, ticks, type Chart } from "./series";

const WIDTH = 480;
const HEIGHT = 180;
const LEFT = 52;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;

interface Properties {
  chart: Chart;
  samples: readonly Sample[];
}

export function Plot({ chart, samples }: Properties): VNode {
  const [pointed, setPointed] = useState<number | null>(null);
  const lines = chart.lines.map((line) => ({ ...line, values: samples.map(line.value) }));
  const most = Math.max(chart.least, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const axis = ticks(most);
  const top = axis.at(-1)!;
  const step = (WIDTH - LEFT - RIGHT) / (KEPT_SAMPLES - 1);
  // The newest sample stands at the right end.
  const x = (index: number) => WIDTH - RIGHT - (samples.length - 1 - index) * step;
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const shown = pointed === null ? samples.length - 1 : Math.min(pointed, samples.length - 1);

  const point = (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const place = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const index = samples.length - 1 - Math.round((WIDTH - RIGHT - place) / step);
    setPointed(index >= 0 && index < samples.length ? index : null);
  };

  return (
    <figure class="chart">
      <figcaption>
        <h2>{chart.title}</h2>
        <span>{chart.unit}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${chart.title}, last five minutes`}
        onPointerMove={point}
        onPointerLeave={() => setPointed(null)}
      >
        {axis.map((value) => (
          <g key={value}>
            <line class="grid-line" x1={LEFT} x2={WIDTH - RIGHT} y1={y(value)} y2={y(value)} />
            <text x={LEFT - 6} y={y(value) + 4} text-anchor="end">
              {chart.format(value)}
            </text>
          </g>
        ))}
        {[5, 4, 3, 2, 1, 0].map((minutes) => (
          <text
            key={minutes}
            x={WIDTH - RIGHT - minutes * 60 * step}
            y={HEIGHT - 6}
            text-anchor={minutes === 0 ? "end" : minutes === 5 ? "start" : "middle"}
          >
            {minutes === 0 ? "now" : `−${minutes} min`}
          </text>
        ))}
        {lines.map((line) => (
          <g key={line.name} class={`colour${line.colour}`}>
            <path class="line" d={linePath(line.values, x, y)} />
            {alone(line.values).map((index) => (
              <circle key={samples[index]!.time} class="alone" cx={x(index)} cy={y(line.values[index]!)} r={2} />
            ))}
          </g>
        ))}
        {pointed !== null && (
          <>
            <line class="pointer" x1={x(shown)} x2={x(shown)} y1={TOP} y2={HEIGHT - BOTTOM} />
            {lines.map((line) => {
              const value = line.values[shown];
              return value == null ? null : (
                <circle key={line.name} class={`colour${line.colour}`} cx={x(shown)} cy={y(value)} r={3} />
              );
            })}
          </>
        )}
      </svg>
      <ul class="legend">
        {lines.map((line) => {
          const value = line.values[shown];
          return (
            <li key={line.name}>
              <i class={`colour${line.colour}`} />
              {line.name} <b>{value == null ? "–" : chart.format(value)}</b>
            </li>
          );
        })}
        {pointed !== null && samples[shown] && (
          <li class="time">{new Date(samples[shown].time * 1000).toLocaleTimeString()}</li>
        )}
      </ul>
    </figure>
  );
}
