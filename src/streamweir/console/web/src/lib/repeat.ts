// A request that was made before, as a draft of the playground. Pure. Members of the body that are not known are left out.
import { readConversation } from "./conversation";
import type { Draft, Turn } from "./draft";
import { objectOf, readObject, textOf, type Json } from "./json";
import type { ParametersView } from "./types";

// The body of a request of chat completions, Messages or Responses.
export function draftOfBody(body: unknown): Partial<Draft> {
  const text = typeof body === "string" ? body : JSON.stringify(body ?? null);
  const read = readObject(text);
  return read ? { ...parametersOf(read), ...saidIn(text, read) } : {};
}

function parametersOf(body: Json): Partial<Draft> {
  const tools = Array.isArray(body.tools) && body.tools.length ? JSON.stringify(body.tools, null, 2) : "";
  const stop = body.stop ?? body.stop_sequences;
  return {
    temperature: numberText(body.temperature),
    maxTokens: numberText(body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens),
    topP: numberText(body.top_p),
    seed: numberText(body.seed),
    stop: (Array.isArray(stop) ? stop : [stop]).filter((each) => typeof each === "string").join("\n"),
    effort: textOf(body.reasoning_effort) ?? textOf(objectOf(body.reasoning).effort) ?? textOf(objectOf(body.output_config).effort) ?? "",
    isStreamed: body.stream === true,
    tools,
  };
}

// Where no more is known than the parameters. A tool that is known by its name alone cannot be sent.
export function draftOfParameters(parameters: ParametersView | null, isStreamed: boolean): Partial<Draft> {
  const { temperature, max_tokens, top_p, seed, effort } = parameters ?? {};
  return {
    temperature: numberText(temperature),
    maxTokens: numberText(max_tokens),
    topP: numberText(top_p),
    seed: numberText(seed),
    effort: effort ?? "",
    isStreamed,
  };
}

function numberText(value: unknown): string {
  return typeof value === "number" ? String(value) : "";
}

const SYSTEM = ["system", "developer", "instructions"];

function saidIn(text: string, body: Json): Partial<Draft> {
  const messages = readConversation(text)?.messages ?? [];
  const words = (parts: { kind: string; text: string }[]) =>
    parts
      .filter((part) => part.kind === "text")
      .map((part) => part.text)
      .join("\n\n");
  const system = messages.filter((message) => SYSTEM.includes(message.role)).map((message) => words(message.parts));
  const turns: Turn[] = [];
  for (const message of messages) {
    if (SYSTEM.includes(message.role)) continue;
    const images = message.parts.flatMap((part) => (part.image ? [part.image] : []));
    const said = { text: words(message.parts), ...(images.length ? { images } : {}) };
    if (message.answers !== null) turns.push({ role: "tool", ...said, callId: message.answers });
    else if (message.role !== "assistant") turns.push({ role: "user", ...said });
    else if (!message.calls.length) turns.push({ role: "assistant", ...said });
    else turns.push({ role: "assistant", ...said, calls: message.calls.map((call, place) => ({ ...call, id: call.id ?? `call_${place}` })) });
  }
  const last = turns.at(-1);
  const hasPrompt = last?.role === "user";
  return {
    system: system.join("\n\n"),
    turns: hasPrompt ? turns.slice(0, -1) : turns,
    prompt: hasPrompt ? last.text : "",
    images: (hasPrompt && last.images) || [],
    hasUsage: body.stream !== true || objectOf(body.stream_options).include_usage === true,
  };
}
