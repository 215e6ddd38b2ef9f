// What a streamed answer says so far: frames of any API in, what is shown out. Pure. All dialects of chat completions are
// chunks of the same shape; where they differ (docs/spec/dialects.md) the frames tell, and so do those of the Messages API
// (`messages.ts`) and of the Responses API (`responses.ts`): which API it is need not be known.
// The end of the bytes is not the end of the answer: one that was cut says so.
import { numberOf, objectOf, objects, readObject, textOf, type Json } from "./json";
import * as messages from "./messages";
import * as responses from "./responses";
import type { SseFrame } from "./sse";
import { readVectors, type Vectors } from "./vectors";

export interface Call {
  id: string | null;
  name: string;
  arguments: string;
  isCustom?: boolean; // the arguments are any text
  namespace?: string; // of the Responses API
  block?: number; // of the Messages API
}

// Reasoning as it has to be sent back: a block of the Messages API, or an item of the Responses API.
export type Thought = { block: number; text: string; signature: string } | { block: number; data: string } | { item: Json };

export interface Choice {
  index: number;
  text: string;
  reasoning: string;
  refusal: string;
  calls: Call[];
  thoughts?: Thought[];
  others?: Call[]; // items of the Responses API that are nothing of the above, by their type
  finish: string | null;
}

export interface TokenUse {
  prompt: number;
  completion: number;
  cached: number | null;
  reasoning: number | null;
  written?: number; // to a cache
}

export interface Fault {
  message: string;
  type: string | null;
  code: string | null;
}

export interface Answer {
  id: string | null;
  model: string | null;
  choices: Choice[]; // in the order of their index
  use: TokenUse | null;
  fault: Fault | null;
  counts?: Json; // usage of the Messages API, which comes in pieces
  items?: responses.Item[]; // of the Responses API
  vectors?: Vectors; // of the embeddings API
  isDone: boolean; // `[DONE]` was there, or what the API has in its place
  endsBare: boolean; // the dialect has no `[DONE]`: the last finish is the end
  pieces: number; // frames that brought something to read
  unread: number; // frames that made no sense
}

export const NOTHING: Answer = {
  id: null,
  model: null,
  choices: [],
  use: null,
  fault: null,
  isDone: false,
  endsBare: false,
  pieces: 0,
  unread: 0,
};

export function fold(answer: Answer, frame: Pick<SseFrame, "data">): Answer {
  if (frame.data === null) return answer;
  if (frame.data.trim() === "[DONE]") return { ...answer, isDone: true };
  const chunk = readObject(frame.data);
  if (!chunk) return { ...answer, unread: answer.unread + 1 };
  if (messages.isEvent(chunk)) return messages.foldEvent(answer, chunk);
  return responses.isEvent(chunk) ? responses.foldEvent(answer, chunk) : foldChunk(answer, chunk, "delta");
}

// An answer that did not stream. It is whole when it is there.
export function readWhole(text: string): Answer {
  const body = readObject(text);
  if (!body) return { ...NOTHING, unread: 1 };
  if (messages.isMessage(body)) return { ...messages.foldMessage(NOTHING, body), isDone: true };
  if (responses.isResponse(body)) return { ...responses.foldResponse(NOTHING, body), isDone: true };
  const vectors = readVectors(body);
  return { ...foldChunk(NOTHING, body, "message"), ...(vectors ? { vectors } : {}), isDone: true };
}

export function readFault(text: string): Fault | null {
  return faultOf(readObject(text) ?? {});
}

export type Ending = "whole" | "failed" | "cut";

// Asked when no more bytes will come.
export function endingOf(answer: Answer): Ending {
  if (answer.fault) return "failed";
  const isFinished = answer.choices.length > 0 && answer.choices.every((choice) => choice.finish !== null);
  return isFinished && (answer.isDone || answer.endsBare) ? "whole" : "cut";
}

function foldChunk(answer: Answer, chunk: Json, member: "delta" | "message"): Answer {
  const next = { ...answer };
  next.id ??= textOf(chunk.id);
  next.model ??= textOf(chunk.model);
  next.fault ??= faultOf(chunk);
  next.use = useOf(chunk.usage) ?? answer.use;
  if (member === "delta" && chunk.object === "chat.completion") next.endsBare = true;
  for (const choice of objects(chunk.choices)) {
    const index = typeof choice.index === "number" ? choice.index : 0;
    const before = next.choices.find((each) => each.index === index) ?? newChoice(index);
    // A text completion has its text in the choice itself.
    const said = typeof choice.text === "string" ? { content: choice.text } : objectOf(choice[member]);
    const after = foldChoice(before, said, textOf(choice.finish_reason));
    if (hasMore(before, after)) next.pieces = answer.pieces + 1;
    next.choices = [...next.choices.filter((each) => each.index !== index), after].sort((one, two) => one.index - two.index);
  }
  return next;
}

function newChoice(index: number): Choice {
  return { index, text: "", reasoning: "", refusal: "", calls: [], finish: null };
}

function foldChoice(choice: Choice, delta: Json, finish: string | null): Choice {
  let calls = choice.calls;
  for (const [place, call] of objects(delta.tool_calls).entries()) {
    const isCustom = typeof call.custom === "object";
    calls = foldCall(calls, typeof call.index === "number" ? call.index : place, textOf(call.id), objectOf(isCustom ? call.custom : call.function), isCustom);
  }
  if (delta.function_call) calls = foldCall(calls, 0, null, objectOf(delta.function_call), false);
  return {
    index: choice.index,
    text: choice.text + (textOf(delta.content) ?? ""),
    reasoning: choice.reasoning + (textOf(delta.reasoning_content) ?? textOf(delta.reasoning) ?? ""),
    refusal: choice.refusal + (textOf(delta.refusal) ?? ""),
    calls,
    finish: finish ?? choice.finish,
  };
}

const MOST_CALLS = 1000;

function foldCall(calls: Call[], index: number, id: string | null, piece: Json, isCustom: boolean): Call[] {
  if (index < 0 || index >= MOST_CALLS || !Number.isInteger(index)) return calls;
  const next = calls.slice();
  while (next.length <= index) next.push({ id: null, name: "", arguments: "" });
  const before = next[index] ?? { id: null, name: "", arguments: "" };
  next[index] = {
    id: before.id ?? id,
    name: before.name || (textOf(piece.name) ?? ""),
    arguments: before.arguments + (textOf(isCustom ? piece.input : piece.arguments) ?? ""),
    ...(isCustom || before.isCustom ? { isCustom: true } : {}),
  };
  return next;
}

function hasMore(before: Choice, after: Choice): boolean {
  const size = (choice: Choice) => choice.text.length + choice.reasoning.length + choice.refusal.length;
  return size(after) > size(before) || after.calls !== before.calls;
}

function faultOf(chunk: Json): Fault | null {
  if (typeof chunk.error !== "object" || chunk.error === null) return null;
  const error = chunk.error as Json;
  const code = typeof error.code === "number" ? String(error.code) : textOf(error.code);
  return { message: textOf(error.message) ?? "An error without a message.", type: textOf(error.type), code };
}

// The newest that has the core counts; a partial one says nothing.
function useOf(usage: unknown): TokenUse | null {
  const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = objectOf(usage);
  if (typeof prompt_tokens !== "number" || typeof completion_tokens !== "number") return null;
  return {
    prompt: prompt_tokens,
    completion: completion_tokens,
    cached: numberOf(objectOf(prompt_tokens_details).cached_tokens),
    reasoning: numberOf(objectOf(completion_tokens_details).reasoning_tokens),
  };
}
