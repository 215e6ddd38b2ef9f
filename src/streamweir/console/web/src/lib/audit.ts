// The members of an audit row's detail, as people read them. Pure.
import { exactDollars } from "./format";

export interface Member {
  name: string;
  text: string;
}

// Amounts are kept in nano-dollars, changes as what was and what is. What says nothing is left out.
export function readDetail(detail: Record<string, unknown>): Member[] {
  const members: Member[] = [];
  for (const [name, value] of Object.entries(detail)) {
    const isAmount = name.endsWith("_nano");
    const text = isChange(value) ? `${show(value.from, isAmount)} → ${show(value.to, isAmount)}` : show(value, isAmount);
    if (value !== "" && value !== null) members.push({ name: isAmount ? name.slice(0, -5) : name, text });
  }
  return members;
}

function isChange(value: unknown): value is { from: unknown; to: unknown } {
  return typeof value === "object" && value !== null && Object.keys(value).sort().join() === "from,to";
}

function show(value: unknown, isAmount: boolean): string {
  if (value === null) return "none";
  if (isAmount && typeof value === "number") return dollarsOf(value);
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Exact, as long as the number itself is.
function dollarsOf(nano: number): string {
  const digits = String(Math.abs(nano)).padStart(10, "0");
  const cents = digits.slice(-9).replace(/0+$/, "");
  return exactDollars(`${nano < 0 ? "-" : ""}${digits.slice(0, -9)}${cents && `.${cents}`}`);
}
