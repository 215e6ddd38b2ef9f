// The members of an alert's data, as people read them. Pure.
import type { Member } from "./audit";
import { exactDollars, words } from "./format";

// Things are named by their names, amounts are exact. The workspace has a column of its own, and what says nothing is left out.
export function readAlert(data: Record<string, unknown>): Member[] {
  const members: Member[] = [];
  for (const [name, value] of Object.entries(data)) {
    if (value === null || name === "workspace") continue;
    const isAmount = name.endsWith("_usd") && typeof value === "string";
    members.push({ name: words(isAmount ? name.slice(0, -4) : name), text: isAmount ? exactDollars(value) : show(value) });
  }
  return members;
}

function show(value: unknown): string {
  if (typeof value === "object" && value !== null && "name" in value && typeof value.name === "string") return value.name;
  return typeof value === "string" ? value : JSON.stringify(value);
}
