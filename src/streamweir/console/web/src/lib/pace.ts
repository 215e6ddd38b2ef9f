// How fast an answer comes and whether it has come to a halt. Pure; what cannot be told yet is null.
import { duration } from "./format";

const SHORTEST_MS = 250;
const QUIET_MS = 5_000;
const STALLED_MS = 15_000;

// Between the first and the last piece. Too short a time, or too few tokens, would be a guess.
export function tokensPerSecond(tokens: number | null | undefined, firstMs: number | null, lastMs: number | null): number | null {
  if (tokens === null || tokens === undefined || tokens < 2 || firstMs === null || lastMs === null) return null;
  const span = lastMs - firstMs;
  return span < SHORTEST_MS ? null : (1000 * tokens) / span;
}

export function rate(perSecond: number | null): string {
  if (perSecond === null) return "–";
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

type Calm = "moving" | "quiet" | "stalled";

export function calmOf(silentMs: number): Calm {
  return silentMs > STALLED_MS ? "stalled" : silentMs > QUIET_MS ? "quiet" : "moving";
}

// Of a stream that nobody reads.
export function awayText(sinceMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - sinceMs) / 1000));
  return `none for ${seconds < 60 ? `${seconds} s` : duration(1000 * seconds)}`;
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

// Before the next try, the first being number 0.
export function backoff(tries: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries);
}
