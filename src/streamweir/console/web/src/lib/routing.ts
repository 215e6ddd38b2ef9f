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
