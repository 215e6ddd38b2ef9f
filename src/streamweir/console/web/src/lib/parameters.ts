// The parameters of a request, in words: in the order in which one asks for them. Pure.
import { count } from "./format";
import type { ParametersView } from "./types";

const NAMES: Record<keyof Omit<ParametersView, "tool_count">, string> = {
  messages: "Messages",
  temperature: "Temperature",
  top_p: "Top p",
  top_k: "Top k",
  max_tokens: "Max tokens",
  effort: "Reasoning effort",
  reasoning_tokens: "Max reasoning tokens",
  tools: "Tools",
  tool_choice: "Tool choice",
  parallel_tool_calls: "Parallel tool calls",
  response_format: "Response format",
  verbosity: "Verbosity",
  modalities: "Modalities",
  n: "Answers",
  seed: "Seed",
  stop: "Stop sequences",
  presence_penalty: "Presence penalty",
  frequency_penalty: "Frequency penalty",
  logit_bias: "Tokens with a bias",
  logprobs: "Log probabilities",
  top_logprobs: "Top log probabilities",
  dimensions: "Dimensions",
};

// Figures as they were sent: a temperature of 0.123456 is no 0.12, and a seed has no groups.
const COUNTED: readonly string[] = ["messages", "max_tokens", "reasoning_tokens"];

export function parameterRows(parameters: ParametersView): [name: string, text: string][] {
  return Object.entries(NAMES).flatMap(([name, label]): [string, string][] => {
    const value = parameters[name as keyof typeof NAMES];
    return value === undefined ? [] : [[label, textOf(name, value, parameters)]];
  });
}

function textOf(name: string, value: NonNullable<ParametersView[keyof ParametersView]>, parameters: ParametersView): string {
  if (Array.isArray(value)) {
    const more = name === "tools" ? (parameters.tool_count ?? 0) - value.length : 0;
    return value.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" && COUNTED.includes(name) ? count(value) : String(value);
}
