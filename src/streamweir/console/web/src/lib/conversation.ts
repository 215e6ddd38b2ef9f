// The body of a request as a conversation to read: of any API, by what stands in it (`items.ts` has the items of the
// Responses API). Pure. Callers wrote it: whatever is not as it should be is shown as the JSON it is, nothing is left
// out, and what lies elsewhere (an image) is named and never fetched.
import { readItems } from "./items";
import { isObject, readObject, type Json } from "./json";
import { firstText, other, pretty, readParts, type Call, type Message } from "./parts";

export type { Call, Message };

export interface Conversation {
  messages: Message[];
  tools: { name: string; text: string }[];
  others: [name: string, text: string][]; // the rest of the body
}

// null: it is no request of an API, as far as can be told.
export function readConversation(prompt: string): Conversation | null {
  const body = readObject(prompt);
  const found = body && saidIn(body);
  if (!found) return null;
  const { tools, functions, system, instructions, [found.member]: _, ...rest } = body;
  const first = (role: string, content: unknown) => (content === undefined || content === null ? [] : readMessage({ role, content }));
  return {
    messages: [...first("system", system), ...first("instructions", instructions), ...found.messages],
    tools: [...listOf(tools), ...listOf(functions)].map(readTool),
    others: Object.entries(rest).map(([name, value]) => [name, pretty(value)]),
  };
}

function saidIn(body: Json): { member: string; messages: Message[] } | null {
  const { messages, input, prompt } = body;
  if (Array.isArray(messages)) return { member: "messages", messages: messages.flatMap(readMessage) };
  if (Array.isArray(input) && input.some(isObject)) return { member: "input", messages: readItems(input) };
  if (input !== undefined) return { member: "input", messages: [textsOf("input", input)] };
  return prompt === undefined ? null : { member: "prompt", messages: [textsOf("prompt", prompt)] };
}

// A text or several, or tokens: also what embeddings are made of, and what a completion begins with.
function textsOf(role: string, value: unknown): Message {
  const isText = typeof value === "string" || (Array.isArray(value) && value.every((each) => typeof each === "string"));
  return { role, name: null, answers: null, parts: isText ? readParts(value) : [other(value)], reasoning: null, calls: [] };
}

const READ = new Set(["role", "name", "tool_call_id", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call"]);

// A message of the Messages API may hold results of calls, and is then several to read.
function readMessage(message: unknown): Message[] {
  if (!isObject(message)) return [{ role: "?", name: null, answers: null, parts: [other(message)], reasoning: null, calls: [] }];
  const { role, name, tool_call_id, content, refusal, reasoning_content, reasoning, tool_calls, function_call } = message;
  const blocks = listOf(content).filter(isObject);
  const calls = [...listOf(tool_calls), ...blocks.filter(isCall)].map(readCall);
  const thoughts = blocks.filter(isThought).map((block) => block.thinking);
  const results = blocks.filter(isResult);
  const isApart = (part: unknown) => isObject(part) && (isCall(part) || isThought(part) || isResult(part));
  const parts = [...readParts(Array.isArray(content) ? content.filter((part) => !isApart(part)) : content), ...readParts(refusal)];
  const unread = Object.entries(message).filter(([member]) => !READ.has(member));
  if (unread.length) parts.push(other(Object.fromEntries(unread)));
  if (isObject(function_call)) calls.push(readCall({ function: function_call }));
  const read: Message = {
    role: typeof role === "string" ? role : "?",
    name: typeof name === "string" ? name : null,
    answers: typeof tool_call_id === "string" ? tool_call_id : null,
    parts,
    reasoning: firstText(reasoning_content, reasoning, thoughts.join("\n\n")),
    calls,
  };
  if (!results.length) return [read];
  const isEmpty = !parts.length && !calls.length && read.reasoning === null;
  return [...results.map(readResult), ...(isEmpty ? [] : [read])];
}

function readResult(block: Json): Message {
  const { type: _, tool_use_id, content, is_error, ...rest } = block;
  const parts = readParts(content);
  if (is_error === true) parts.unshift(other("The tool failed."));
  if (Object.keys(rest).length) parts.push(other(rest));
  return { role: "tool", name: null, answers: firstText(tool_use_id), parts, reasoning: null, calls: [] };
}

function isCall(block: Json): boolean {
  return block.type === "tool_use" && typeof block.name === "string";
}

function isThought(block: Json): boolean {
  return block.type === "thinking" && typeof block.thinking === "string" && block.thinking !== "";
}

function isResult(block: Json): boolean {
  return block.type === "tool_result";
}

function readCall(call: unknown): Call {
  const found = isObject(call) ? call : {};
  if (isCall(found)) return { id: firstText(found.id), name: String(found.name), arguments: JSON.stringify(found.input ?? {}) };
  const asked = isObject(found.function) ? found.function : isObject(found.custom) ? found.custom : {};
  return {
    id: firstText(found.id),
    name: firstText(asked.name) ?? "?",
    arguments: firstText(asked.arguments, asked.input) ?? pretty(asked.arguments ?? call),
  };
}

function readTool(tool: unknown): { name: string; text: string } {
  const asked = isObject(tool) && isObject(tool.function) ? tool.function : tool;
  return { name: (isObject(asked) ? firstText(asked.name, asked.type) : null) ?? "?", text: pretty(tool) };
}

// Arguments are JSON in text, and read more easily indented; what is no JSON stays as it is.
export function readable(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? pretty(value) : text;
  } catch {
    return text;
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
