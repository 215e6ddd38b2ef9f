// The Responses API as the console reads and writes it. Pure: events of a stream or a whole response into an answer, and
// a draft into the body of a request. A stream is whole when `response.completed` or `response.incomplete` was there, and
// not before. Nothing is stored, so reasoning is sent back as the item that it came in.
import type { Answer, Call, Choice, TokenUse } from "./chat";
import { lastTurn, type Body, type Draft, type Turn } from "./draft";
import { responsesImage } from "./images";
import { numberOf, objectOf, objects, textOf, type Json } from "./json";
import { responsesTool } from "./tools";

export function isEvent(document: Json): boolean {
  const { type } = document;
  return typeof type === "string" && (type.startsWith("response.") || type === "keepalive" || (type === "error" && typeof document.message === "string"));
}

export function isResponse(document: Json): boolean {
  return document.object === "response" && Array.isArray(document.output);
}

// An output item, as far as it is there.
export interface Item {
  text: string;
  refusal: string;
  reasoning: string;
  call: Call | null;
  other: Call | null; // by its type
  sent: Json | null; // reasoning that is done
}

const NEW: Item = { text: "", refusal: "", reasoning: "", call: null, other: null, sent: null };
const MOST_ITEMS = 10_000;

export function foldEvent(answer: Answer, event: Json): Answer {
  const type = String(event.type);
  const response = objectOf(event.response);
  switch (type) {
    case "response.created":
    case "response.in_progress":
      return { ...named(answer, response), choices: answer.choices.length ? answer.choices : [choiceOf([], null)] };
    case "response.completed":
    case "response.incomplete":
      return { ...ended(named(answer, response), response), isDone: true };
    case "response.failed":
      return { ...named(answer, response), use: useOf(response.usage) ?? answer.use, fault: answer.fault ?? faultOf(objectOf(response.error)) };
    case "error":
      return { ...answer, fault: answer.fault ?? faultOf(event) };
  }
  const index = numberOf(event.output_index);
  if (index === null || index < 0 || index >= MOST_ITEMS || !Number.isInteger(index)) return answer;
  const before = answer.items?.[index] ?? NEW;
  const after = grownItem(before, type, event);
  return after === before ? answer : withItem(answer, index, after);
}

function grownItem(item: Item, type: string, event: Json): Item {
  const delta = textOf(event.delta) ?? "";
  switch (type) {
    case "response.output_item.added":
      return readItem(objectOf(event.item));
    case "response.output_item.done":
      return doneItem(item, objectOf(event.item));
    case "response.output_text.delta":
      return { ...item, text: item.text + delta };
    case "response.refusal.delta":
      return { ...item, refusal: item.refusal + delta };
    case "response.reasoning_summary_text.delta":
    case "response.reasoning_text.delta":
      return { ...item, reasoning: item.reasoning + delta };
    case "response.reasoning_summary_part.added":
      return item.reasoning ? { ...item, reasoning: `${item.reasoning}\n\n` } : item;
    case "response.function_call_arguments.delta":
    case "response.custom_tool_call_input.delta":
      return item.call ? { ...item, call: { ...item.call, arguments: item.call.arguments + delta } } : item;
  }
  return item;
}

// What the end of an item repeats replaces what was streamed of it.
function doneItem(before: Item, sent: Json): Item {
  const item = readItem(sent);
  const call = item.call && { ...item.call, arguments: item.call.arguments || (before.call?.arguments ?? "") };
  return { ...item, text: item.text || before.text, refusal: item.refusal || before.refusal, reasoning: item.reasoning || before.reasoning, call };
}

function readItem(item: Json): Item {
  switch (item.type) {
    case "message": {
      const parts = objects(item.content);
      return { ...NEW, text: textIn(parts, "text"), refusal: textIn(parts, "refusal") };
    }
    case "reasoning":
      return { ...NEW, reasoning: [...objects(item.summary), ...objects(item.content)].map((part) => textOf(part.text) ?? "").join("\n\n"), sent: item };
    case "function_call":
    case "custom_tool_call":
      return { ...NEW, call: readCall(item) };
  }
  const { type, id, ...rest } = item;
  return { ...NEW, other: { id: textOf(id), name: textOf(type) ?? "?", arguments: JSON.stringify(rest) } };
}

function readCall(item: Json): Call {
  const isCustom = item.type === "custom_tool_call";
  const namespace = textOf(item.namespace);
  return {
    id: textOf(item.call_id),
    name: textOf(item.name) ?? "",
    arguments: textOf(isCustom ? item.input : item.arguments) ?? "",
    ...(isCustom ? { isCustom } : {}),
    ...(namespace === null ? {} : { namespace }),
  };
}

function textIn(parts: Json[], member: string): string {
  return parts.map((part) => textOf(part[member]) ?? "").join("");
}

function withItem(answer: Answer, index: number, item: Item): Answer {
  const items = answer.items?.slice() ?? [];
  while (items.length <= index) items.push(NEW);
  items[index] = item;
  const before = answer.choices[0];
  const choice = choiceOf(items, before?.finish ?? null);
  const size = (each: Choice | undefined) => (each ? each.text.length + each.reasoning.length + each.refusal.length + sizeOf(each.calls) : 0);
  return { ...answer, items, choices: [choice], pieces: answer.pieces + (size(choice) > size(before) ? 1 : 0) };
}

function sizeOf(calls: Call[]): number {
  return calls.reduce((sum, call) => sum + 1 + call.arguments.length, 0);
}

function choiceOf(items: readonly Item[], finish: string | null): Choice {
  const said = (member: "text" | "refusal" | "reasoning") => items.map((item) => item[member]).filter(Boolean).join("\n\n");
  const sent = items.flatMap((item) => (item.sent?.encrypted_content ? [{ item: item.sent }] : []));
  const others = items.flatMap((item) => (item.other ? [item.other] : []));
  return {
    index: 0,
    text: said("text"),
    reasoning: said("reasoning"),
    refusal: said("refusal"),
    calls: items.flatMap((item) => (item.call ? [item.call] : [])),
    ...(sent.length ? { thoughts: sent } : {}),
    ...(others.length ? { others } : {}),
    finish,
  };
}

export function foldResponse(answer: Answer, response: Json): Answer {
  const items = objects(response.output).map(readItem);
  const read = { ...named(answer, response), items, choices: [choiceOf(items, null)], pieces: 1 };
  if (response.status !== "failed") return ended(read, response);
  return { ...read, use: useOf(response.usage), fault: faultOf(objectOf(response.error)) };
}

function named(answer: Answer, response: Json): Answer {
  return { ...answer, id: answer.id ?? textOf(response.id), model: answer.model ?? textOf(response.model) };
}

function ended(answer: Answer, response: Json): Answer {
  const finish = textOf(objectOf(response.incomplete_details).reason) ?? textOf(response.status);
  const choice = answer.choices[0] ?? choiceOf([], null);
  return { ...answer, choices: [{ ...choice, finish }], use: useOf(response.usage) ?? answer.use };
}

function faultOf(error: Json): Answer["fault"] {
  const type = textOf(error.type);
  return { message: textOf(error.message) ?? "An error without a message.", type: type === "error" ? null : type, code: textOf(error.code) };
}

function useOf(usage: unknown): TokenUse | null {
  const { input_tokens, output_tokens, input_tokens_details, output_tokens_details } = objectOf(usage);
  if (typeof input_tokens !== "number" || typeof output_tokens !== "number") return null;
  const written = numberOf(objectOf(input_tokens_details).cache_write_tokens);
  return {
    prompt: input_tokens,
    completion: output_tokens,
    cached: numberOf(objectOf(input_tokens_details).cached_tokens),
    reasoning: numberOf(objectOf(output_tokens_details).reasoning_tokens),
    ...(written ? { written } : {}),
  };
}

// The request. `tools` are as the caller wrote them, in the format of any API.
export function responsesBody(draft: Draft, model: string, numbers: Body, tools: unknown[]): Body {
  const { max_tokens, ...rest } = numbers;
  const body: Body = { ...(model ? { model } : {}) };
  if (draft.system.trim()) body.instructions = draft.system;
  body.input = draft.turns.length || draft.images.length ? inputOf(draft) : draft.prompt;
  Object.assign(body, max_tokens === undefined ? {} : { max_output_tokens: max_tokens }, rest);
  // Without a word about the summary the models of OpenAI show nothing of their reasoning.
  if (draft.effort) body.reasoning = draft.effort === "none" ? { effort: "none" } : { effort: draft.effort, summary: "auto" };
  if (tools.length) body.tools = tools.map(responsesTool);
  body.stream = draft.isStreamed;
  return body;
}

function inputOf(draft: Draft): Body[] {
  const custom = new Set(draft.turns.flatMap((turn) => turn.calls ?? []).flatMap((call) => (call.isCustom ? [call.id] : [])));
  return [...draft.turns, ...lastTurn(draft)].flatMap((turn) => itemsOf(turn, custom));
}

function itemsOf(turn: Turn, custom: ReadonlySet<string>): Body[] {
  if (turn.role === "tool") {
    const id = turn.callId ?? "";
    return [{ type: custom.has(id) ? "custom_tool_call_output" : "function_call_output", call_id: id, output: turn.text }];
  }
  if (turn.role === "user" && turn.images?.length) {
    return [{ role: "user", content: [...turn.images.map(responsesImage), ...(turn.text ? [{ type: "input_text", text: turn.text }] : [])] }];
  }
  const items: Body[] = (turn.thoughts ?? []).flatMap((thought) => ("item" in thought ? [thought.item] : []));
  if (turn.text || !turn.calls?.length) items.push({ role: turn.role, content: turn.text });
  for (const { id, name, arguments: said, isCustom, namespace } of turn.calls ?? []) {
    const about = { call_id: id, name, ...(namespace === undefined ? {} : { namespace }) };
    items.push(isCustom ? { type: "custom_tool_call", ...about, input: said } : { type: "function_call", ...about, arguments: said });
  }
  return items;
}
