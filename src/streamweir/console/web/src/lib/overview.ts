// The sums behind the overview: steps without requests filled in, the dearest groups as lines of their own, and how a
// figure has changed. Pure.
import { clock, day, NONE, plural, shortDay } from "./format";
import type { Grouping, Overview, Period, UsageView as Usage, NamedGroup, StepView } from "./types";

export interface Range {
  since: number;
  until: number;
}

export interface Steps {
  starts: number[]; // ms
  middles: number[]; // where a step is drawn, so that whatever is hovered within it is nearest to it
  points: (Usage | null)[]; // null: nobody asked
}

export interface Shown {
  group: string | null; // null: all that have no line of their own
  label: string;
  colour: string;
}

export const PERIODS: readonly (readonly [Period, string])[] = [
  ["hour", "Hour"],
  ["day", "Day"],
  ["week", "Week"],
  ["month", "Month"],
];

export const GROUPINGS: readonly (readonly [Grouping, string])[] = [
  ["model", "Model"],
  ["key", "Key"],
  ["provider", "Provider"],
];

const MOST_LINES = 7; // there are eight colours, and the last is for the rest
const REST = "c8";

// Every step that has a part in the period, in order. The server leaves out the empty ones.
export function stepsOf(view: Pick<Overview, "since_ms" | "until_ms" | "step_ms" | "series">): Steps {
  const { since_ms, until_ms, step_ms } = view;
  const known = new Map(view.series.map((point) => [point.at_ms, point.usage]));
  const phase = (view.series[0]?.at_ms ?? 0) % step_ms;
  const starts: number[] = [];
  for (let at = Math.floor((since_ms - phase) / step_ms) * step_ms + phase; at < until_ms; at += step_ms) starts.push(at);
  return {
    starts,
    middles: starts.map((at) => at + step_ms / 2),
    points: starts.map((at) => known.get(at) ?? null),
  };
}

// Sums are 0 where nobody asked; what is no sum (`otherwise` null) is a gap there.
export function column<T extends number | null>(points: readonly (Usage | null)[], pick: (usage: Usage) => T, otherwise: T): T[] {
  return points.map((usage) => (usage === null ? otherwise : pick(usage)));
}

export function groupLabel(group: NamedGroup): string {
  return group.group === null ? "All others" : group.name || group.group || "(none)";
}

// The first groups have a colour of their own, all others share one.
export function shownGroups(groups: readonly NamedGroup[]): Shown[] {
  const own = groups.filter((group) => group.group !== null).slice(0, MOST_LINES);
  const shown: Shown[] = own.map((group, place) => ({ group: group.group, label: groupLabel(group), colour: `c${place + 1}` }));
  if (groups.length > own.length) shown.push({ group: null, label: "All others", colour: REST });
  return shown;
}

export function colourOf(shown: readonly Shown[], group: string | null): string {
  return shown.find((each) => each.group === group)?.colour ?? REST;
}

// A row of figures for each group that is shown.
export function groupColumns(
  series: readonly (StepView & { group: string | null })[],
  starts: readonly number[],
  shown: readonly Shown[],
  pick: (usage: Usage) => number,
): number[][] {
  const places = new Map(starts.map((at, place) => [at, place]));
  const lines = new Map(shown.map((each, line) => [each.group, line]));
  const columns = shown.map(() => starts.map(() => 0));
  for (const point of series) {
    const place = places.get(point.at_ms);
    const values = columns[lines.get(point.group) ?? lines.get(null) ?? -1];
    if (place !== undefined && values) values[place] = (values[place] ?? 0) + pick(point.usage);
  }
  return columns;
}

// The refused requests of each step. A step of the server begins where one of the chart does.
export function refusedColumn(view: Pick<Overview, "refused">, starts: readonly number[]): number[] {
  const known = new Map(view.refused?.series.map((step) => [step.at_ms, step.requests]));
  return starts.map((at) => known.get(at) ?? 0);
}

// A range of whole steps within the period. null: the whole of it, or nothing of it.
export function snapped(range: Range, steps: Steps, stepMs: number): Range | null {
  const within = steps.starts.filter((at) => at + stepMs > range.since && at < range.until);
  const [first, last] = [within[0], within.at(-1)];
  if (first === undefined || last === undefined || within.length === steps.starts.length) return null;
  return { since: first, until: last + stepMs };
}

export function isWithin(range: Range | null, at: number): boolean {
  return range === null || (at >= range.since && at < range.until);
}

export function sum(values: readonly number[], starts: readonly number[], range: Range | null): number {
  return values.reduce((total, value, place) => (isWithin(range, starts[place] ?? 0) ? total + value : total), 0);
}

export function tokensOf(usage: Usage): number {
  return usage.prompt_tokens + usage.completion_tokens;
}

export function errorRate(usage: Usage): number | null {
  return usage.requests ? usage.errors / usage.requests : null;
}

// Of the price, in points of a hundred. It may be negative. Both are of the requests whose cost is known.
export function marginShare(usage: Usage): string {
  const margin = Number(usage.margin_usd ?? NaN);
  const price = usage.uncosted ? Number(usage.cost_usd) + margin : Number(usage.price_usd);
  if (!price || Number.isNaN(margin)) return NONE;
  const share = (100 * margin) / price;
  const size = Math.abs(share);
  return `${share < 0 && Number(size.toFixed(1)) > 0 ? "−" : ""}${size === 0 || size >= 10 ? Math.round(size) : size.toFixed(1)} %`;
}

export interface Change {
  text: string;
  isUp: boolean | null; // null: neither
  isFirst?: boolean; // there was nothing to compare it with
}

// Against the period before. null: nothing can be said.
export function changeOf(now: number | null, before: number | null): Change | null {
  if (now === null || before === null) return null;
  if (before === 0) return now === 0 ? null : { text: "none", isUp: true, isFirst: true };
  const share = (now - before) / before;
  if (share >= 9.995) return { text: `× ${Math.round(now / before)}`, isUp: true };
  const percent = Math.abs(share) < 0.0995 ? Math.abs(100 * share).toFixed(1) : String(Math.round(Math.abs(100 * share)));
  return signed(Number(percent), `${Number(percent)} %`, share);
}

// Between two shares, in points of a hundred.
export function pointsOf(now: number | null, before: number | null): Change | null {
  if (now === null || before === null) return null;
  const points = (100 * Math.abs(now - before)).toFixed(1);
  return signed(Number(points), `${points} pt`, now - before);
}

function signed(size: number, text: string, direction: number): Change {
  if (size === 0) return { text: "±0", isUp: null };
  return { text: `${direction > 0 ? "+" : "−"}${text}`, isUp: direction > 0 };
}

export function spanName(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return NONE;
  if (minutes % 1440 === 0) return plural(minutes / 1440, "day");
  if (minutes % 60 === 0) return plural(minutes / 60, "hour");
  if (minutes < 120) return plural(minutes, "minute");
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// From when to when, as short as it can be said today.
export function spanText(since: number, until: number, now: number): string {
  const [from, to] = [clock(since).slice(0, 5), clock(until).slice(0, 5)];
  const last = day(until - 1);
  if (from === "00:00" && to === "00:00") return day(since) === last ? last : `${day(since)} to ${last.slice(5)}`;
  const date = (ms: number) => `${shortDay(ms)} `;
  if (day(since) === last) return `${last === day(now) ? "" : date(since)}${from} to ${to}`;
  return `${date(since)}${from} to ${date(until)}${to}`;
}

export function isPeriod(text: string | null): text is Period {
  return PERIODS.some(([name]) => name === text);
}

export function isGrouping(text: string | null): text is Grouping {
  return GROUPINGS.some(([name]) => name === text);
}
