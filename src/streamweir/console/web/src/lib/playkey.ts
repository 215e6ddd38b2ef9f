// Which key the playground sends with, if nobody has chosen one: a key of its own, or the development key of a gateway
// without others. Never one that callers use: their budget and limits are not for trying things out. Pure.
import type { PlayKeyView } from "./types";

export const PLAYGROUND_KEY = "playground";
const DEVELOPMENT_KEY = "development";

// A key of its own, as it is made: what it may spend is little, and renewed.
export const NEW_PLAYGROUND_KEY = { name: PLAYGROUND_KEY, scopes: ["chat"], budget_usd: "5", budget_period: "day" };

export function usualKey(keys: readonly PlayKeyView[]): PlayKeyView | null {
  const named = (name: string) => keys.find((key) => key.name === name);
  return named(PLAYGROUND_KEY) ?? named(DEVELOPMENT_KEY) ?? null;
}
