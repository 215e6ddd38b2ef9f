// Lines or bars over time, drawn by uPlot, as high as their box: hovering (or the arrow keys) reads all charts of a page at
// one moment, with a tooltip beside the pointer; dragging asks for a closer look, a double click for all. What is shown is
// the page's to say. The figures stand below as text.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { timeLabel, tipLeft, total } from "../lib/chart";
import { zone } from "../lib/format";
import { spanText, type Range } from "../lib/overview";
import { colour, isDark } from "../lib/theme";

export interface Line {
  label: string;
  colour: string; // the name of a custom property: `c1`
  values: (number | null)[];
  whole?: number | null; // of all that is shown, where nothing is hovered
  drawn?: number[]; // how high, if not as high as the values
}

export interface ChartProps {
  label: string;
  times: number[]; // ms, the middle of each step
  stepMs: number;
  range: Range;
  lines: Line[];
  format: (value: number | null) => string;
  kind?: "line" | "bars";
  isStacked?: boolean;
  isWhole?: boolean; // no part of a unit exists
  onZoom?: (range: Range | null) => void;
}

// Where one looks, within the chart.
interface Cursor {
  place: number; // of the step
  x: number;
  y: number;
  width: number; // of the whole chart
}

const HEIGHT = 168; // at least
const FONT = "11px system-ui, sans-serif";
const WHOLE = [1, 2, 5].flatMap((part) => Array.from({ length: 15 }, (_, power) => part * 10 ** power)).sort((a, b) => a - b);

export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [isOver, setIsOver] = useState(false); // the pointer, over this chart
  const [isRead, setIsRead] = useState(false); // by somebody who uses the keys
  const dark = isDark.value;
  const shape = JSON.stringify([props.kind, props.isStacked, props.lines.map((line) => [line.label, line.colour])]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(options(latest, sizeOf(element), setCursor), data(latest.current), element);
    plot.current = made;
    made.over.addEventListener("mouseenter", () => setIsOver(true));
    made.over.addEventListener("mouseleave", () => setIsOver(false));
    made.over.addEventListener("dblclick", () => latest.current.onZoom?.(null));
    const observer = new ResizeObserver(() => {
      const size = sizeOf(element);
      if (size.width !== made.width || size.height !== made.height) made.setSize(size);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark]);
  useEffect(() => plot.current?.setData(data(latest.current)), [props.times, props.lines, props.range.since, props.range.until]);
  return (
    <figure
      class="chart"
      aria-label={`${props.label}. Arrow keys read it, plus and minus zoom.`}
      tabIndex={0}
      onKeyDown={(event) => {
        if (plot.current && press(event.key, plot.current, latest.current)) {
          event.preventDefault();
          setIsRead(true);
        }
      }}
      onBlur={() => {
        setIsRead(false);
        plot.current?.setCursor({ left: -10, top: -10 });
      }}
    >
      <div ref={box} class="chart-box" aria-hidden="true" />
      {cursor && (isOver || isRead) && <Tip {...props} cursor={cursor} />}
      <figcaption aria-live={isRead ? "polite" : "off"}>
        <Legend {...props} place={cursor?.place ?? null} />
      </figcaption>
    </figure>
  );
}

function sizeOf(box: HTMLElement): { width: number; height: number } {
  return { width: box.clientWidth, height: Math.max(HEIGHT, box.clientHeight) };
}

// What is shown of one step, or of all.
function spanAt(props: ChartProps, place: number | null): string {
  const at = place === null ? undefined : props.times[place];
  const { since, until } = at === undefined ? props.range : { since: at - props.stepMs / 2, until: at + props.stepMs / 2 };
  return `${spanText(since, until, Date.now())} ${zone(since)}`;
}

// All series at one moment, beside the pointer. The text below the chart says the same to a screen reader.
function Tip(props: ChartProps & { cursor: Cursor }) {
  const { lines, format, cursor } = props;
  return (
    <div class="tip" aria-hidden="true" style={{ left: `${tipLeft(cursor.x, cursor.width)}px`, top: `${cursor.y + 12}px` }}>
      <strong>{spanAt(props, cursor.place)}</strong>
      {lines.map((line, place) => (
        <div key={place}>
          <span class={`swatch ${line.colour}`} />
          <span class="legend-label">{line.label}</span>
          <b>{format(line.values[cursor.place] ?? null)}</b>
        </div>
      ))}
      {props.isStacked && lines.length > 1 && (
        <div>
          <span class="legend-label">All</span>
          <b>{format(total(lines, cursor.place))}</b>
        </div>
      )}
    </div>
  );
}

function Legend(props: ChartProps & { place: number | null }) {
  const at = props.place === null ? undefined : props.times[props.place];
  return (
    <ul class="legend">
      <li class="legend-time">{spanAt(props, props.place)}</li>
      {props.lines.map((line, place) => (
        <li key={place} title={line.label}>
          <span class={`swatch ${line.colour}`} aria-hidden="true" />
          <span class="legend-label">{line.label}</span>
          <span class="legend-value">{props.format((at === undefined ? line.whole : line.values[props.place ?? 0]) ?? null)}</span>
        </li>
      ))}
    </ul>
  );
}

// Whether the key meant the chart.
function press(key: string, plot: uPlot, props: ChartProps): boolean {
  const { since, until } = props.range;
  const shown = props.times.flatMap((ms, place) => (ms >= since && ms <= until ? [place] : []));
  const [first, last] = [shown[0], shown.at(-1)];
  if (first === undefined || last === undefined) return false;
  const at = plot.cursor.idx ?? null;
  const to = { ArrowLeft: at === null ? last : at - 1, ArrowRight: at === null ? first : at + 1, Home: first, End: last }[key];
  if (to !== undefined) {
    const middle = props.times[Math.min(last, Math.max(first, to))] ?? since;
    plot.setCursor({ left: plot.valToPos(middle / 1000, "x"), top: 0 });
    return true;
  }
  if (key === "+" || key === "=") {
    const middle = props.times[at ?? last] ?? until;
    const quarter = (until - since) / 4;
    if (2 * quarter > 2 * props.stepMs) props.onZoom?.({ since: middle - quarter, until: middle + quarter });
    return true;
  }
  if (key !== "-" && key !== "Escape") return false;
  props.onZoom?.(null);
  return true;
}

// What is stacked is drawn as sums, the last line lowest.
function stacked(lines: Line[]): (number | null)[][] {
  const sums: number[] = [];
  return lines
    .slice()
    .reverse()
    .map((line) => line.values.map((value, place) => (sums[place] = (sums[place] ?? 0) + (value ?? 0))))
    .reverse();
}

function data(props: ChartProps): uPlot.AlignedData {
  const lines = props.isStacked ? stacked(props.lines) : props.lines.map((line) => line.drawn ?? line.values);
  return [props.times.map((ms) => ms / 1000), ...lines] as uPlot.AlignedData;
}

function options(latest: { current: ChartProps }, size: { width: number; height: number }, onRead: (cursor: Cursor | null) => void): uPlot.Options {
  const props = latest.current;
  const ink = colour("muted");
  // There is no measure where there is nothing but zeros.
  const measures = (_: uPlot, splits: number[]) => splits.map((value) => (value > 0 && isFlat(latest.current.lines) ? null : value));
  return {
    ...size,
    padding: [8, 16, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      // Only where one looks is told to the other charts: what one drags is told by the page.
      sync: { key: "charts", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
    },
    scales: {
      x: { time: true, range: () => [latest.current.range.since / 1000, latest.current.range.until / 1000] },
      y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      { stroke: ink, grid: { show: false }, ticks: { show: false }, font: FONT, space: 64, size: 26, values: timeLabels },
      {
        stroke: ink,
        grid: { stroke: colour("line"), width: 1, filter: measures },
        ticks: { show: false },
        font: FONT,
        size: 58,
        space: 26,
        filter: measures,
        values: (_, splits) => splits.map((value: number | null) => (value === null ? "" : props.format(value))),
        ...(props.isWhole ? { incrs: WHOLE } : {}),
      },
    ],
    series: [{}, ...props.lines.map((line) => drawn(line, props.kind ?? "line"))],
    hooks: {
      setCursor: [(plot) => onRead(cursorOf(plot))],
      setSelect: [
        (plot) => {
          const { left, width: across } = plot.select;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (across < 4) return;
          const at = (position: number) => Math.round(plot.posToVal(position, "x") * 1000);
          latest.current.onZoom?.({ since: at(left), until: at(left + across) });
        },
      ],
    },
  };
}

function isFlat(lines: Line[]): boolean {
  return lines.every((line) => line.values.every((value) => !value));
}

function cursorOf(plot: uPlot): Cursor | null {
  const { idx, left = 0, top = 0 } = plot.cursor;
  return idx == null ? null : { place: idx, x: plot.over.offsetLeft + left, y: plot.over.offsetTop + top, width: plot.width };
}

function timeLabels(_: uPlot, splits: number[], __: number, ___: number, step: number): string[] {
  return splits.map((at) => timeLabel(at * 1000, step));
}

function drawn(line: Line, kind: "line" | "bars"): uPlot.Series {
  const stroke = colour(line.colour);
  const bars = uPlot.paths.bars?.({ size: [0.72, 40] });
  if (kind === "bars" && bars) return { label: line.label, fill: stroke, width: 0, points: { show: false }, paths: bars };
  return { label: line.label, stroke, width: 1.75, points: { show: true, size: 5, fill: stroke, filter: isolated } };
}

// A line needs two points beside each other; what stands alone is a dot.
function isolated(plot: uPlot, place: number): number[] {
  const values = plot.data[place] ?? [];
  const found: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) found.push(at);
  }
  return found;
}
