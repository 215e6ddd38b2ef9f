// The Messages API as the console reads and writes it. Pure: events of a stream or a whole message into an answer, and
// a draft into the body of a request. A stream is whole when `message_stop` was there, and not before.
import type { Answer, Choice, Thought, TokenUse } from "./chat";
import { lastTurn, type Body, type Draft, type Turn } from "./draft";
import { messagesImage } from "./images";
import { numberOf, objectOf, objects, readObject, textOf, type Json } from "./json";
import { messagesTool } from "./tools";

export const USUAL_MAX_TOKENS = 4096; // the API wants a number

const EVENTS = new Set(["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping"]);

export function isEvent(document: Json): boolean {
  return typeof document.type === "string" && EVENTS.has(document.type);
}

export function isMessage(document: Json): boolean {
  return document.type === "message" && Array.isArray(document.content);
}

const NO_CHOICE: Choice = { index: 0, text: "", reasoning: "", refusal: "", calls: [], finish: null };

export function foldEvent(answer: Answer, event: Json): Answer {
  const choice = answer.choices[0] ?? NO_CHOICE;
  const index = numberOf(event.index) ?? 0;
  const grown = (after: Choice): Answer => ({ ...answer, choices: [after], pieces: answer.pieces + (isMore(choice, after) ? 1 : 0) });
  switch (event.type) {
    case "message_start": {
      const message = objectOf(event.message);
      const id = answer.id ?? textOf(message.id);
      // How much there will be is not known yet, and the prompt may be an estimate: counts, but no usage.
      return { ...answer, id, model: answer.model ?? textOf(message.model), choices: [choice], counts: objectOf(message.usage) };
    }
    case "content_block_start":
      return grown(withBlock(choice, objectOf(event.content_block), index));
    case "content_block_delta":
      return grown(withDelta(choice, objectOf(event.delta), index));
    case "message_delta": {
      const finish = textOf(objectOf(event.delta).stop_reason) ?? choice.finish;
      return withUsage({ ...answer, choices: [{ ...choice, finish }] }, event.usage);
    }
    case "message_stop":
      return { ...answer, isDone: true };
  }
  return answer;
}

export function foldMessage(answer: Answer, message: Json): Answer {
  let choice: Choice = { ...NO_CHOICE, finish: textOf(message.stop_reason) };
  for (const [index, block] of objects(message.content).entries()) {
    choice = withBlock(choice, block, index);
    if (block.type === "tool_use") choice = withDelta(choice, { type: "input_json_delta", partial_json: JSON.stringify(block.input ?? {}) }, index);
  }
  const read = { ...answer, id: textOf(message.id), model: textOf(message.model), choices: [choice], pieces: 1 };
  return withUsage(read, message.usage);
}

function withBlock(choice: Choice, block: Json, index: number): Choice {
  switch (block.type) {
    case "text":
      return { ...choice, text: choice.text + (textOf(block.text) ?? "") };
    case "thinking": {
      const thought = { block: index, text: textOf(block.thinking) ?? "", signature: textOf(block.signature) ?? "" };
      return { ...choice, reasoning: choice.reasoning + thought.text, thoughts: [...(choice.thoughts ?? []), thought] };
    }
    case "redacted_thinking":
      return { ...choice, thoughts: [...(choice.thoughts ?? []), { block: index, data: textOf(block.data) ?? "" }] };
    case "tool_use":
      return { ...choice, calls: [...choice.calls, { id: textOf(block.id), name: textOf(block.name) ?? "", arguments: "", block: index }] };
  }
  return choice;
}

function withDelta(choice: Choice, delta: Json, index: number): Choice {
  switch (delta.type) {
    case "text_delta":
      return { ...choice, text: choice.text + (textOf(delta.text) ?? "") };
    case "thinking_delta": {
      const text = textOf(delta.thinking) ?? "";
      const thoughts = choice.thoughts?.map((each) => ("text" in each && each.block === index ? { ...each, text: each.text + text } : each));
      return { ...choice, reasoning: choice.reasoning + text, ...(thoughts ? { thoughts } : {}) };
    }
    case "signature_delta": {
      const signature = textOf(delta.signature) ?? "";
      const thoughts = choice.thoughts?.map((each) => ("text" in each && each.block === index ? { ...each, signature } : each));
      return { ...choice, ...(thoughts ? { thoughts } : {}) };
    }
    case "input_json_delta": {
      const piece = textOf(delta.partial_json) ?? "";
      return { ...choice, calls: choice.calls.map((call) => (call.block === index ? { ...call, arguments: call.arguments + piece } : call)) };
    }
  }
  return choice;
}

function isMore(before: Choice, after: Choice): boolean {
  return after.text !== before.text || after.reasoning !== before.reasoning || after.calls !== before.calls;
}

// Counts are of all that there is so far; one that a later usage does not have stays as it was.
function withUsage(answer: Answer, usage: unknown): Answer {
  const counts = { ...(answer.counts ?? {}), ...objectOf(usage) };
  return { ...answer, counts, use: useOf(counts) ?? answer.use };
}

function useOf(counts: Json): TokenUse | null {
  const { input_tokens, output_tokens, output_tokens_details } = counts;
  if (typeof input_tokens !== "number" || typeof output_tokens !== "number") return null;
  const cached = numberOf(counts.cache_read_input_tokens);
  const written = numberOf(counts.cache_creation_input_tokens);
  return {
    prompt: input_tokens + (cached ?? 0) + (written ?? 0),
    completion: output_tokens,
    cached,
    reasoning: numberOf(objectOf(output_tokens_details).thinking_tokens),
    ...(written ? { written } : {}),
  };
}

// The request. `tools` are as the caller wrote them, in the format of any API.
export function messagesBody(draft: Draft, model: string, numbers: Body, tools: unknown[]): Body {
  const { max_tokens = USUAL_MAX_TOKENS, ...rest } = numbers;
  const body: Body = { ...(model ? { model } : {}), max_tokens, ...rest };
  if (draft.system.trim()) body.system = draft.system;
  body.messages = turnsOf(draft);
  const stop = draft.stop.split("\n").filter((line) => line !== "");
  if (stop.length) body.stop_sequences = stop;
  if (draft.effort === "none") body.thinking = { type: "disabled" };
  else if (draft.effort) {
    body.thinking = { type: "adaptive" };
    body.output_config = { effort: draft.effort === "minimal" ? "low" : draft.effort };
  }
  if (tools.length) body.tools = tools.map(messagesTool);
  body.stream = draft.isStreamed;
  return body;
}

function turnsOf(draft: Draft): Body[] {
  const messages: { role: string; content: Body[] }[] = [];
  for (const turn of [...draft.turns, ...lastTurn(draft)]) {
    const role = turn.role === "assistant" ? "assistant" : "user";
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...blocksOf(turn));
    else messages.push({ role, content: blocksOf(turn) });
  }
  return messages.map(({ role, content }) => {
    const [only] = content;
    return { role, content: content.length === 1 && only?.type === "text" ? only.text : content };
  });
}

function blocksOf(turn: Turn): Body[] {
  if (turn.role === "tool") return [{ type: "tool_result", tool_use_id: turn.callId ?? "", content: turn.text }];
  const blocks: Body[] = (turn.thoughts ?? []).flatMap(thoughtOf);
  if (turn.role === "user") blocks.push(...(turn.images ?? []).map(messagesImage));
  if (turn.text || (!turn.calls?.length && !blocks.length)) blocks.push({ type: "text", text: turn.text });
  for (const call of turn.calls ?? []) blocks.push({ type: "tool_use", id: call.id, name: call.name, input: readObject(call.arguments) ?? {} });
  return blocks;
}

function thoughtOf(thought: Thought): Body[] {
  if ("item" in thought) return []; // of the Responses API
  if ("data" in thought) return [{ type: "redacted_thinking", data: thought.data }];
  return [{ type: "thinking", thinking: thought.text, signature: thought.signature }];
}
