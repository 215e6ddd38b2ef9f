// The members of an audit row's detail, as people read them. Pure.
import { exactDollars, moment } from "./format";

export interface Member {
  name: string;
  text: string;
}

// Amounts are kept in nano-dollars, moments in milliseconds, things by their ids, changes as what was and what is. What says
// nothing is left out.
export function readDetail(detail: Record<string, unknown>, nameOf: (id: string) => string = (id) => id): Member[] {
  const members: Member[] = [];
  for (const [name, value] of Object.entries(detail)) {
    const kind = /_(nano|ms|id)$/.exec(name)?.[1];
    const text = isChange(value) ? `${show(value.from, kind, nameOf)} → ${show(value.to, kind, nameOf)}` : show(value, kind, nameOf);
    if (value !== "" && value !== null) members.push({ name: kind && name !== "request_id" ? name.slice(0, -kind.length - 1) : name, text });
  }
  return members;
}

function isChange(value: unknown): value is { from: unknown; to: unknown } {
  return typeof value === "object" && value !== null && Object.keys(value).sort().join() === "from,to";
}

function show(value: unknown, kind: string | undefined, nameOf: (id: string) => string): string {
  if (value === null) return "none";
  if (typeof value === "number" && kind === "nano") return dollarsOf(value);
  if (typeof value === "number" && kind === "ms") return moment(value);
  if (typeof value === "string" && kind === "id") return nameOf(value);
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Exact, as long as the number itself is.
function dollarsOf(nano: number): string {
  const digits = String(Math.abs(nano)).padStart(10, "0");
  const cents = digits.slice(-9).replace(/0+$/, "");
  return exactDollars(`${nano < 0 ? "-" : ""}${digits.slice(0, -9)}${cents && `.${cents}`}`);
}
