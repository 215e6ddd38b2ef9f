// Numbers, moments and amounts as people read them. Pure; what is unknown is a dash, which is not 0.

export const NONE = "–";

const grouped = new Intl.NumberFormat("en-US");
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : grouped.format(value);
}

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 10_000 ? grouped.format(value) : compact.format(value);
}

export function percent(part: number, whole: number): string {
  if (!whole) return NONE;
  const value = (100 * part) / whole;
  return value === 0 ? "0 %" : value < 0.1 ? "< 0.1 %" : `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

// An amount is text, exact to the nano-dollar. All of them are rounded here, and nowhere else: cents where there are dollars,
// none where there are very many, three figures where there is less than a dollar. `exactDollars` is for what is added up.
export function dollars(usd: string | number | null | undefined): string {
  if (usd === null || usd === undefined) return NONE;
  const value = Number(usd);
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "$0";
  if (size >= 1) return `${sign}$${(size < 10_000 ? cents : whole).format(size)}`;
  const digits = Math.min(9, 2 - Math.floor(Math.log10(size)));
  return `${sign}$${size.toFixed(digits).replace(/(\.\d\d+?)0+$/, "$1")}`;
}

// To the last digit, in groups, and never with one digit of cents.
export function exactDollars(usd: string | null | undefined): string {
  if (usd === null || usd === undefined) return NONE;
  const [whole = "", cents = ""] = usd.replace("-", "").split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  const digits = whole === "0" && !cents ? whole : `${grouped}.${cents.padEnd(2, "0")}`;
  return usd.startsWith("-") ? `−$${digits}` : `$${digits}`;
}

// The decimals that all of these amounts need, at least two: so they can stand one below the other.
export function decimalsOf(amounts: readonly (string | null | undefined)[]): number {
  return Math.max(2, ...amounts.map((usd) => usd?.split(".")[1]?.length ?? 0));
}

// To the last digit, with so many decimals: none is cut off.
export function alignedDollars(usd: string | null | undefined, decimals: number, isSigned = false): string {
  if (usd === null || usd === undefined) return NONE;
  const [whole = "", rest = ""] = usd.replace("-", "").split(".");
  const digits = `$${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${rest.padEnd(decimals, "0")}`;
  if (usd.startsWith("-")) return `−${digits}`;
  return isSigned && /[1-9]/.test(usd) ? `+${digits}` : digits;
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1) return ms <= 0 ? "0 ms" : "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return NONE;
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(1)} KiB`;
  return `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

const pad = (value: number, width = 2): string => String(value).padStart(width, "0");

// The reader's own zone at that moment, by its distance from UTC: `UTC+1`, `UTC−3:30`.
export function zone(ms: number): string {
  return zoneOf(-new Date(ms).getTimezoneOffset());
}

export function zoneOf(minutes: number): string {
  const size = Math.abs(minutes);
  const rest = size % 60 ? `:${pad(size % 60)}` : "";
  return size ? `UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${rest}` : "UTC";
}

// In the reader's own zone, which is told, in an order that sorts.
export function moment(ms: number): string {
  return `${day(ms)} ${clock(ms)} ${zone(ms)}`;
}

export function preciseMoment(ms: number): string {
  return `${day(ms)} ${clock(ms)}.${pad(new Date(ms).getMilliseconds(), 3)} ${zone(ms)}`;
}

export function day(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// `19 Nov`, where the year is plain.
export function shortDay(ms: number): string {
  const at = new Date(ms);
  return `${at.getDate()} ${MONTHS[at.getMonth()]}`;
}

export function clock(ms: number): string {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export function ago(ms: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

// `client_gone` -> `client gone`.
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

// The end of an id that was drawn tells it apart, for it begins with the time; it is searched for, too. A name is shown whole.
export function shortId(id: string): string {
  return /^(req|key|ws)_/.test(id) && id.length > 14 ? `…${id.slice(-8)}` : id;
}

// A verdict, as the console calls it: `rejected` is said of requests that the gateway has refused.
export function outcome(verdict: string): string {
  return verdict === "rejected" ? "refused" : words(verdict);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
