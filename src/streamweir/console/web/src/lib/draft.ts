// What is about to be asked in the playground, and the request body it makes in each API. Pure. A field that is left
// empty is left out of the body; one that cannot be read is named, and nothing is sent.
import { isChat, MESSAGES, RESPONSES } from "./apis";
import type { Call, Choice, Thought } from "./chat";
import { chatImage, type Image } from "./images";
import { messagesBody } from "./messages";
import { responsesBody } from "./responses";
import { chatTool } from "./tools";

export interface Turn {
  role: "user" | "assistant" | "tool";
  text: string;
  calls?: (Call & { id: string })[]; // of an assistant
  callId?: string; // of a tool: which call this answers
  images?: Image[]; // of a user
  thoughts?: Thought[]; // of an assistant, in the API that sent them
}

export interface Draft {
  system: string;
  turns: Turn[];
  prompt: string;
  images: Image[]; // of the prompt
  temperature: string;
  maxTokens: string;
  topP: string;
  seed: string;
  stop: string; // a sequence per line
  effort: string;
  isStreamed: boolean;
  hasUsage: boolean;
  tools: string; // JSON
}

export const NEW_DRAFT: Draft = {
  system: "",
  turns: [],
  prompt: "",
  images: [],
  temperature: "",
  maxTokens: "",
  topP: "",
  seed: "",
  stop: "",
  effort: "",
  isStreamed: true,
  hasUsage: true,
  tools: "",
};

export const EXAMPLE_TOOLS = JSON.stringify(
  [
    {
      type: "function",
      function: {
        name: "get_weather",
        description: "The weather at a place, now",
        parameters: {
          type: "object",
          properties: { place: { type: "string" }, unit: { type: "string", enum: ["C", "F"] } },
          required: ["place"],
        },
      },
    },
  ],
  null,
  2,
);

export type Body = Record<string, unknown>;
export type Problems = Partial<Record<keyof Draft, string>>;

// `api` is a name of `apis.ts`; empty is chat completions.
export function bodyOf(draft: Draft, model: string, api = ""): { body: Body; problems: Problems } {
  const problems: Problems = {};
  const given: Body = {};
  const numbers: readonly [keyof Draft, string, string, boolean][] = [
    ["temperature", "temperature", draft.temperature, false],
    ["maxTokens", "max_tokens", draft.maxTokens, true],
    ["topP", "top_p", draft.topP, false],
    ["seed", "seed", draft.seed, true],
  ];
  for (const [field, member, text, isWhole] of numbers) {
    if (!text.trim() || (field === "seed" && !isChat(api))) continue; // others have none
    const value = Number(text);
    if (!Number.isFinite(value) || (isWhole && !Number.isSafeInteger(value))) problems[field] = isWhole ? "A whole number." : "A number.";
    else given[member] = value;
  }
  const tools = readTools(draft.tools);
  if (typeof tools === "string") problems.tools = tools;
  if (!draft.turns.length && !lastTurn(draft).length) problems.prompt = "Enter a prompt first.";
  const listed = typeof tools === "string" ? [] : tools;
  return { body: (BODIES[api] ?? chatBody)(draft, model, given, listed), problems };
}

const BODIES: Record<string, typeof chatBody> = { [MESSAGES]: messagesBody, [RESPONSES]: responsesBody };

function chatBody(draft: Draft, model: string, numbers: Body, tools: unknown[]): Body {
  const body: Body = { ...(model ? { model } : {}), messages: messagesOf(draft), ...numbers };
  const stop = draft.stop.split("\n").filter((line) => line !== "");
  if (stop.length) body.stop = stop;
  if (draft.effort) body.reasoning_effort = draft.effort;
  if (tools.length) body.tools = tools.map(chatTool);
  body.stream = draft.isStreamed;
  if (draft.isStreamed && draft.hasUsage) body.stream_options = { include_usage: true };
  return body;
}

function messagesOf(draft: Draft): Body[] {
  const messages: Body[] = [];
  if (draft.system.trim()) messages.push({ role: "system", content: draft.system });
  for (const turn of [...draft.turns, ...lastTurn(draft)]) messages.push(messageOf(turn));
  return messages;
}

// The prompt as a turn, if there is one.
export function lastTurn(draft: Draft): Turn[] {
  const { prompt: text, images } = draft;
  return text.trim() || images.length ? [{ role: "user", text, ...(images.length ? { images } : {}) }] : [];
}

function messageOf(turn: Turn): Body {
  if (turn.role === "tool") return { role: "tool", tool_call_id: turn.callId ?? "", content: turn.text };
  if (turn.role === "user" && turn.images?.length) {
    return { role: "user", content: [...turn.images.map(chatImage), ...(turn.text ? [{ type: "text", text: turn.text }] : [])] };
  }
  if (!turn.calls?.length) return { role: turn.role, content: turn.text };
  const calls = turn.calls.map(({ id, name, arguments: said, isCustom }) =>
    isCustom ? { id, type: "custom", custom: { name, input: said } } : { id, type: "function", function: { name, arguments: said } },
  );
  return { role: turn.role, content: turn.text || null, tool_calls: calls };
}

// The tools, or what is wrong with them.
export function readTools(text: string): unknown[] | string {
  if (!text.trim()) return [];
  let tools: unknown;
  try {
    tools = JSON.parse(text);
  } catch (reason) {
    return `Not JSON: ${reason instanceof Error ? reason.message : String(reason)}`;
  }
  if (!Array.isArray(tools)) return "A list of tools: [ ... ].";
  for (const [place, tool] of tools.entries()) {
    const isTool = typeof tool === "object" && tool !== null && ("type" in tool || "input_schema" in tool);
    if (!isTool) return `Tool ${place + 1} has no "type" and no "input_schema".`;
    const { type, name, function: made } = tool as { type: unknown; name?: unknown; function?: { name?: unknown } };
    if (type === "function" && typeof (made ? made.name : name) !== "string") return `Tool ${place + 1} has no "name".`;
  }
  return tools;
}

// The answer becomes part of the conversation. A call waits for what its tool says.
export function continued(draft: Draft, choice: Choice): Draft {
  const turns = [...draft.turns, ...lastTurn(draft)];
  const calls = choice.calls.map(({ block: _, ...call }, place) => ({ ...call, id: call.id ?? `call_${place}` }));
  const said: Turn = { role: "assistant", text: choice.text || choice.refusal, ...(choice.thoughts ? { thoughts: choice.thoughts } : {}) };
  turns.push(calls.length ? { ...said, calls } : said);
  for (const call of calls) turns.push({ role: "tool", text: "", callId: call.id });
  return { ...draft, turns, prompt: "", images: [] };
}

// Whether a key that names these models may ask for this one.
export function mayUse(models: readonly string[] | null, model: string): boolean {
  if (models === null) return true;
  return models.some((each) => (each.endsWith("*") ? model.startsWith(each.slice(0, -1)) : each === model));
}
