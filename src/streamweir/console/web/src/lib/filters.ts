// The filters of the log as they stand in the address of the page, and as the server is asked. Pure: the same address
// gives the same question, but for `last`, which counts back from the moment of asking.
import type { Query } from "./api";
import { nameOfApi } from "./apis";
import { clock, day, dollars, moment, outcome } from "./format";

const TEXTS = ["id", "workspace", "key", "model", "provider", "target", "dialect", "verdict", "error", "end_user", "session", "tag"] as const;
const CHOICES = ["status_class", "failed", "refused", "stream"] as const;
const AMOUNTS = ["min_price_usd", "max_price_usd", "min_cost_usd", "max_cost_usd"] as const;
const MOMENTS = ["since_ms", "until_ms"] as const;
const LAST = "last";
export const CURSORS = "cursors";

const PLAIN = [...TEXTS, ...CHOICES, ...AMOUNTS] as const;
const NAMES = [LAST, ...MOMENTS, ...PLAIN] as const;
export type FilterName = (typeof NAMES)[number];
export type Filters = Partial<Record<FilterName, string>>;

const HOUR_MS = 3_600_000;
export const SPANS: Record<string, { ms: number; text: string }> = {
  hour: { ms: HOUR_MS, text: "Last hour" },
  day: { ms: 24 * HOUR_MS, text: "Last day" },
  week: { ms: 7 * 24 * HOUR_MS, text: "Last week" },
  month: { ms: 30 * 24 * HOUR_MS, text: "Last 30 days" },
};

export const VERDICTS = [
  "completed",
  "length",
  "filtered",
  "truncated",
  "idle_timeout",
  "first_token_timeout",
  "client_gone",
  "upstream_error",
  "rejected",
  "deadline",
  "stopped",
  "shutdown",
  "gateway_fault",
  "orphaned",
] as const;

// What the server would refuse is left out: an address that somebody has mangled still shows a page. A name is taken as
// it stands, for one may end with a blank: what a person types is cleaned where it is typed.
export function readFilters(query: URLSearchParams): Filters {
  const filters: Filters = {};
  for (const name of NAMES) {
    const value = query.get(name);
    if (value?.trim() && isGood(name, value)) filters[name] = value;
  }
  if (filters.since_ms || filters.until_ms) delete filters.last;
  return filters;
}

function isGood(name: FilterName, value: string): boolean {
  if (name === LAST) return Object.hasOwn(SPANS, value);
  if (name === "since_ms" || name === "until_ms") return /^\d{1,15}$/.test(value);
  if (name === "status_class") return /^\d$/.test(value);
  if (name === "failed" || name === "refused" || name === "stream") return value === "true" || value === "false";
  if (name.endsWith("_usd")) return isAmount(value);
  return true;
}

export function isAmount(value: string): boolean {
  return /^\d{1,9}(\.\d{1,9})?$/.test(value);
}

// The members of the address with some of them changed. Another filter begins at the newest page.
export function withFilters(filters: Filters, changes: Partial<Record<FilterName, string | null>>): Query {
  const next: Record<string, string | null | undefined> = { ...filters, ...changes };
  if (changes.last) next.since_ms = next.until_ms = null;
  if (changes.since_ms || changes.until_ms) next.last = null;
  return next;
}

// As /api/requests and its export take them.
export function asked(filters: Filters, now: number): Query {
  const question: Query = {};
  for (const name of PLAIN) question[name] = filters[name];
  const span = filters.last ? SPANS[filters.last] : undefined;
  question.since_ms = span ? now - span.ms : filters.since_ms;
  question.until_ms = filters.until_ms;
  return question;
}

// What was typed: one of the known values, a pattern with `*`, or a part of what is looked for.
export function partOf(typed: string, known: Iterable<string>): string {
  const text = typed.trim();
  return !text || text.includes("*") || [...known].includes(text) ? text : `*${text}*`;
}

export interface Chip {
  name: FilterName;
  text: string;
}

// One for each filter in force; `nameOfKey` where the name behind a key's id is known.
export function chipsOf(filters: Filters, nameOf: (id: string) => string | undefined = () => undefined): Chip[] {
  const chips: Chip[] = [];
  for (const name of NAMES) {
    const value = filters[name];
    if (value !== undefined) chips.push({ name, text: textOf(name, value, nameOf) });
  }
  return chips;
}

function textOf(name: FilterName, value: string, nameOf: (id: string) => string | undefined): string {
  switch (name) {
    case "last":
      return SPANS[value]?.text ?? value;
    case "since_ms":
      return `from ${moment(Number(value))}`;
    case "until_ms":
      return `before ${moment(Number(value))}`;
    case "key":
    case "workspace":
      return said(name, nameOf(value) ?? value);
    case "end_user":
      return said("end user", value);
    case "dialect":
      return `API: ${nameOfApi(value)}`;
    case "verdict":
      return `result: ${outcome(value)}`;
    case "status_class":
      return `status: ${value}xx`;
    case "failed":
      return value === "true" ? "failed" : "not failed";
    case "refused":
      return value === "true" ? "refused by the gateway" : "not refused by the gateway";
    case "stream":
      return value === "true" ? "streamed" : "not streamed";
    case "min_price_usd":
      return `price at least ${dollars(value)}`;
    case "max_price_usd":
      return `price at most ${dollars(value)}`;
    case "min_cost_usd":
      return `cost at least ${dollars(value)}`;
    case "max_cost_usd":
      return `cost at most ${dollars(value)}`;
    case "model":
    case "target":
    case "provider":
    case "error":
    case "session":
      return said(name, value);
    default:
      return `${name}: ${value}`;
  }
}

function said(name: string, value: string): string {
  const part = /^\*([^*]+)\*$/.exec(value)?.[1];
  return part === undefined ? `${name}${value.includes("*") ? " like" : ":"} ${value}` : `${name} contains ${part}`;
}

// The filters without one of them, for each: which of them leaves nothing. A time is one, however it is given.
export function without(filters: Filters): { names: FilterName[]; rest: Filters }[] {
  const isTime = (name: FilterName) => name === LAST || (MOMENTS as readonly string[]).includes(name);
  const inForce = NAMES.filter((name) => filters[name] !== undefined);
  const times = inForce.filter(isTime);
  const groups = [...(times.length ? [times] : []), ...inForce.filter((name) => !isTime(name)).map((name) => [name])];
  return groups.map((names) => {
    const rest = { ...filters };
    for (const name of names) delete rest[name];
    return { names, rest };
  });
}

// Where one is in the pages: the cursors that led here, the last of them that of this page.
export function readCursors(query: URLSearchParams): string[] {
  return (query.get(CURSORS) ?? "").split(",").filter((cursor) => /^[\w-]{1,100}$/.test(cursor));
}

const MOST_CURSORS = 40;

// Too long an address is nobody's: beyond that the way back leads to the newest page.
export function writeCursors(cursors: readonly string[]): string | null {
  return cursors.slice(-MOST_CURSORS).join(",") || null;
}

// An id as it was copied: out of JSON, a header, a line of a log, or the end of one out of a table.
export function readId(text: string): string {
  return text.trim().replace(/^["'`,;=(\s…]+|["'`,;)\s]+$/g, "");
}

export function isWholeRequestId(id: string): boolean {
  return /^req_[0-9a-f]{28}$/.test(id);
}

// The value of an <input type="datetime-local"> and back, in the reader's own zone.
export function localTime(ms: number): string {
  return `${day(ms)}T${clock(ms)}`;
}

export function readLocalTime(text: string): string | null {
  const ms = text ? new Date(text).getTime() : NaN;
  return Number.isFinite(ms) && ms >= 0 ? String(ms) : null;
}
