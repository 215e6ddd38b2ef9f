// The frames of an answer, as they were kept: played again in time, and those of the provider beside those of the
// caller. Pure. A kept frame is a piece of bytes as it went over the wire, which may hold several events or half of one.
import { fold, NOTHING, readWhole, type Answer } from "./chat";
import { SseSplitter } from "./sse";
import type { FrameView as Frame } from "./types";

export interface Moment {
  at_ms: number;
  answer: Answer; // all that was there by then
}

// In the order of time. An event is there when its last byte is.
export function readReplay(frames: readonly Frame[], isStream: boolean): Moment[] {
  if (!isStream) {
    const last = frames.at(-1);
    return last ? [{ at_ms: last.after_ms, answer: readWhole(frames.map((frame) => frame.text).join("")) }] : [];
  }
  const splitter = new SseSplitter();
  const encoder = new TextEncoder();
  const moments: Moment[] = [];
  let answer = NOTHING;
  const add = (at_ms: number, events: ReturnType<SseSplitter["push"]>) => {
    if (!events.length) return;
    for (const event of events) answer = fold(answer, event);
    moments.push({ at_ms, answer });
  };
  for (const frame of frames) add(frame.after_ms, splitter.push(encoder.encode(frame.text)));
  add(frames.at(-1)?.after_ms ?? 0, splitter.end().frames);
  return moments;
}

export function answerAt(moments: readonly Moment[], at_ms: number): Answer {
  let low = 0;
  let high = moments.length; // the first that is later
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((moments[middle]?.at_ms ?? Infinity) <= at_ms) low = middle + 1;
    else high = middle;
  }
  return moments[low - 1]?.answer ?? NOTHING;
}

export interface Beside {
  upstream: Frame[];
  caller: Frame[];
}

const TOGETHER_MS = 20;

// Rows for two columns: what came from the provider, and beside it what went to the caller until the next came, unless
// that was long after.
export function sideBySide(upstream: readonly Frame[], caller: readonly Frame[]): Beside[] {
  const rows: Beside[] = [];
  let row: Beside | null = null;
  let row_ms = 0;
  const open = (at_ms: number): Beside => {
    row = { upstream: [], caller: [] };
    row_ms = at_ms;
    rows.push(row);
    return row;
  };
  let next = 0;
  for (const frame of upstream) {
    for (; next < caller.length && caller[next]!.after_ms < frame.after_ms; next++) put(caller[next]!);
    open(frame.after_ms).upstream.push(frame);
  }
  for (; next < caller.length; next++) put(caller[next]!);
  return rows;

  function put(frame: Frame): void {
    const isLate = row === null || frame.after_ms - row_ms > TOGETHER_MS;
    (isLate ? open(frame.after_ms) : row!).caller.push(frame);
  }
}
