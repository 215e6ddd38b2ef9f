// How a model is routed, in words: the order of its targets, and the models that answer after them.
import type { ModelView } from "./types";

type Routing = Pick<ModelView, "strategy" | "fallbacks" | "context_fallbacks" | "content_filter_fallbacks"> & { targets: unknown[] };

const LISTS = [
  ["fallbacks", "Fallbacks"],
  ["context_fallbacks", "If the prompt is too long"],
  ["content_filter_fallbacks", "If the prompt is filtered"],
] as const;

export function routingOf(model: Routing): string[] {
  const order = model.targets.length > 1 ? [`Strategy: ${model.strategy.replace("_", " ")}`] : [];
  return [...order, ...LISTS.filter(([name]) => model[name].length).map(([name, label]) => `${label}: ${model[name].join(", ")}`)];
}

const SOURCES: Record<string, string> = { list: "price list", config: "configuration", "built-in": "built in" };

// Whose price a model has: what it is sold for by its own price or a price group, else the highest of its targets.
export function ownerOf(model: Pick<ModelView, "owner" | "owners" | "source">): { whose: string; more: string } {
  const { owner, owners, source } = model;
  if (owner === "model") return { whose: "its own", more: SOURCES.config ?? "" };
  if (owner === "group") return { whose: `price group ${owners.join(", ")}`, more: SOURCES.config ?? "" };
  return { whose: owners.join(", "), more: SOURCES[source] ?? source };
}
