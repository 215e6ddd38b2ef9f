// What the overview is narrowed to, and the rest of its choices, live in the address.
import { go, query } from "../../lib/route";

export const NARROWING = ["workspace", "key", "model", "provider"] as const;

export type Narrowing = Partial<Record<(typeof NARROWING)[number], string>>;

// What is in the address stays, except for what is changed.
export function adjust(change: Record<string, string | number | null>): void {
  go("/", { ...Object.fromEntries(query.value), ...change }, { replace: true });
}
