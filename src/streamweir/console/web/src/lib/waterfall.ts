// The way of one request laid out in time: a row for each step, the pieces of its answer, and an axis. Pure; places are
// shares of the whole from 0 to 1, and whatever the row of the log does not know is not drawn.
import { duration, plural } from "./format";
import type { AttemptView, RequestDetail, StripView } from "./types";

export type StepKind = "admission" | "attempt" | "first" | "answer" | "away" | "finish" | "settlement";

export interface Step {
  kind: StepKind;
  name: string;
  note: string | null; // a target
  error: string | null;
  from_ms: number;
  to_ms: number;
  isPoint: boolean; // a moment, not a time
  from: number;
  width: number;
  parts: Part[]; // of one that is not whole
}

export interface Part {
  from_ms: number;
  to_ms: number;
  isOpen: boolean; // nobody came back
  from: number;
  width: number;
}

export interface Tick {
  name: string;
  at_ms: number;
  at: number;
}

export interface Slot {
  from_ms: number;
  to_ms: number;
  count: number;
  from: number;
  width: number;
  strength: number; // 0: nothing went out, 1: as much as ever
}

export interface Gap {
  length_ms: number;
  isExact: boolean;
  from: number;
  width: number;
}

export interface Waterfall {
  span_ms: number;
  ticks: Tick[];
  steps: Step[];
  slots: Slot[];
  gap: Gap | null;
}

type Way = Pick<RequestDetail, "admitted_ms" | "settled_ms" | "attempts" | "ttft_ms" | "duration_ms" | "strip" | "gap_max_ms" | "reader_gaps" | "reader_gap_count">;

export function layOut(way: Way): Waterfall {
  const attempts = placed(way.attempts, way.admitted_ms ?? 0);
  const ends = [way.duration_ms, way.admitted_ms, way.settled_ms, way.ttft_ms, ...attempts.map((each) => each.to_ms)];
  if (way.strip) ends.push(way.strip.start_ms + way.strip.slot_ms * way.strip.counts.length);
  const latest = Math.max(...ends.map((end) => end ?? 0));
  const span_ms = Math.max(1, Math.min(latest, Math.max(way.duration_ms, way.settled_ms ?? 0) || latest));
  const place = (ms: number): number => Math.min(1, Math.max(0, ms / span_ms));
  const step = (kind: StepKind, name: string, from_ms: number, to_ms: number, more: Partial<Step> = {}): Step => {
    const from = place(from_ms);
    const width = Math.max(0, place(to_ms) - from);
    return { kind, name, note: null, error: null, isPoint: false, from_ms, to_ms, from, width, parts: [], ...more };
  };
  const point = (kind: StepKind, name: string, at_ms: number): Step => step(kind, name, at_ms, at_ms, { isPoint: true });

  const steps: Step[] = [];
  if (way.admitted_ms !== null) steps.push(step("admission", "Admission", 0, way.admitted_ms));
  attempts.forEach(({ attempt, from_ms, to_ms }, index) => {
    const name = attempts.length > 1 ? `Attempt ${index + 1}` : "Attempt";
    steps.push(step("attempt", name, from_ms, to_ms, { note: noteOf(attempt), error: attempt.error }));
  });
  if (way.ttft_ms !== null) {
    steps.push(point("first", "First token", way.ttft_ms));
    steps.push(step("answer", "Answer", way.ttft_ms, Math.max(way.ttft_ms, way.duration_ms)));
  }
  const parts = way.reader_gaps.map((gap): Part => {
    const to_ms = Math.max(gap.from_ms, gap.until_ms ?? way.duration_ms);
    const from = place(gap.from_ms);
    return { from_ms: gap.from_ms, to_ms, isOpen: gap.until_ms === null, from, width: Math.max(0, place(to_ms) - from) };
  });
  const [first, last] = [parts[0], parts.at(-1)];
  if (first && last) steps.push(step("away", "Nobody read it", first.from_ms, last.to_ms, { parts, note: gapsText(parts, way.reader_gap_count) }));
  steps.push(point("finish", "Finish", way.duration_ms));
  if (way.settled_ms !== null) {
    steps.push(step("settlement", "Settlement", Math.min(way.duration_ms, way.settled_ms), way.settled_ms));
  }
  const slots = way.strip ? slotsOf(way.strip, way.duration_ms, place) : [];
  return { span_ms, ticks: ticksOf(span_ms), steps, slots, gap: gapOf(slots, way.gap_max_ms, place) };
}

function noteOf(attempt: AttemptView): string {
  const resent = attempt.resends === 1 ? "sent again once" : attempt.resends > 1 ? `sent again ${attempt.resends} times` : null;
  return [attempt.target, resent].filter(Boolean).join(" · ");
}

// Rows of older versions do not say when an attempt began: one follows the other then.
function placed(attempts: readonly AttemptView[], begin_ms: number): { attempt: AttemptView; from_ms: number; to_ms: number }[] {
  let end_ms = begin_ms;
  return attempts.map((attempt) => {
    const from_ms = attempt.start_s === undefined || attempt.start_s === null ? end_ms : attempt.start_s * 1000;
    end_ms = from_ms + attempt.duration_s * 1000;
    return { attempt, from_ms, to_ms: end_ms };
  });
}

const FAINTEST = 0.22;

// The slots are all alike, so the last may reach beyond the end: it is drawn up to there.
function slotsOf(strip: StripView, end_ms: number, place: (ms: number) => number): Slot[] {
  const most = Math.max(1, ...strip.counts);
  return strip.counts.map((count, index) => {
    const from_ms = strip.start_ms + index * strip.slot_ms;
    const to_ms = from_ms + strip.slot_ms;
    const from = place(from_ms);
    const to = place(Math.max(from_ms, Math.min(to_ms, end_ms)));
    const strength = count ? FAINTEST + (1 - FAINTEST) * (count / most) : 0;
    return { from_ms, to_ms, count, from, width: to - from, strength };
  });
}

// The longest time in which nothing went out, as well as the slots tell: one that is shorter than a slot is nowhere to be
// seen. The log knows the longest time in which nothing came from the provider, exactly; mostly these are the same, but
// not where the gateway waited (for the end of a tool call) or spoke itself (of a timeout).
function gapOf(slots: readonly Slot[], longest_ms: number | null, place: (ms: number) => number): Gap | null {
  let best: { from: number; to: number } | null = null;
  let before: number | null = null; // the last slot that is not empty
  slots.forEach((slot, index) => {
    if (!slot.count) return;
    if (before !== null && index - before > 1 && (!best || index - before > best.to - best.from)) best = { from: before, to: index };
    before = index;
  });
  if (best === null) return null;
  const { from, to } = best as { from: number; to: number };
  const from_ms = slots[from]?.to_ms ?? 0;
  const to_ms = slots[to]?.from_ms ?? 0;
  const slot_ms = (slots[from]?.to_ms ?? 0) - (slots[from]?.from_ms ?? 0);
  const isExact = longest_ms !== null && longest_ms >= to_ms - from_ms && longest_ms <= to_ms - from_ms + 2 * slot_ms;
  const length_ms = isExact ? longest_ms : to_ms - from_ms + slot_ms;
  return { length_ms, isExact, from: place(from_ms), width: place(to_ms) - place(from_ms) };
}

const MOST_TICKS = 5;

// Round moments, few enough to read.
export function ticksOf(span_ms: number): Tick[] {
  const step = stepOf(span_ms / MOST_TICKS);
  const ticks: Tick[] = [];
  for (let index = 0; index * step <= span_ms; index++) {
    const at_ms = index * step;
    ticks.push({ name: tickText(at_ms, step), at_ms, at: at_ms / span_ms });
  }
  return ticks;
}

const MINUTE_MS = 60_000;
const LONG_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440].map((minutes) => minutes * MINUTE_MS);

function stepOf(least_ms: number): number {
  if (least_ms > 30_000) {
    const found = LONG_STEPS.find((step) => step >= least_ms);
    if (found !== undefined) return found;
    return Math.ceil(least_ms / LONG_STEPS.at(-1)!) * LONG_STEPS.at(-1)!;
  }
  const power = 10 ** Math.floor(Math.log10(least_ms));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least_ms) ?? 10;
  const step = factor * power;
  return step === 50_000 ? MINUTE_MS : step;
}

function tickText(ms: number, step_ms: number): string {
  if (ms === 0) return "0";
  if (step_ms >= MINUTE_MS) return ms % (60 * MINUTE_MS) ? `${ms / MINUTE_MS} min` : `${ms / (60 * MINUTE_MS)} h`;
  if (step_ms >= 100 || ms >= 1000) return `${Number((ms / 1000).toFixed(3))} s`;
  return `${Number(ms.toFixed(3))} ms`;
}

export function gapText(gap: Gap): string {
  return `${gap.isExact ? "" : "about "}${duration(gap.length_ms)}`;
}

// Not all of many are recorded.
function gapsText(parts: readonly Part[], count: number | null): string {
  const times = plural(Math.max(count ?? 0, parts.length), "time");
  return parts.at(-1)?.isOpen ? `${times}, and nobody came back` : `${times}, until somebody came back`;
}

export function awaySum(step: Step): number {
  return step.parts.reduce((sum, part) => sum + part.to_ms - part.from_ms, 0);
}

// A step in words, for those who do not see the bars.
export function told(step: Step): string {
  if (step.parts.length) return step.parts.map((part) => `from ${duration(part.from_ms)} to ${part.isOpen ? "the end" : duration(part.to_ms)}`).join(", ");
  if (step.isPoint) return `at ${duration(step.from_ms)}`;
  return `from ${duration(step.from_ms)} to ${duration(step.to_ms)}${step.error ? `, failed: ${step.error}` : ""}`;
}
