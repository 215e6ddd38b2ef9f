// The body of a request as a conversation to read: of chat completions or of the Messages API, by what stands in it.
// Pure. Callers wrote it: whatever is not as it should be is shown as the JSON it is, nothing is left out, and what lies
// elsewhere (an image) is named and never fetched.

export interface Part {
  kind: "text" | "other";
  text: string;
}

export interface Call {
  id: string | null;
  name: string;
  arguments: string;
}

export interface Message {
  role: string;
  name: string | null;
  answers: string | null; // the id of the call that a tool's message answers
  parts: Part[];
  reasoning: string | null;
  calls: Call[];
}

export interface Conversation {
  messages: Message[];
  tools: { name: string; text: string }[];
  others: [name: string, text: string][]; // the rest of the body
}

type Json = Record<string, unknown>;

// null: it is no chat request, as far as can be told.
export function readConversation(prompt: string): Conversation | null {
  let body: unknown;
  try {
    body = JSON.parse(prompt);
  } catch {
    return null;
  }
  if (!isObject(body) || !Array.isArray(body.messages)) return null;
  const { messages, tools, functions, system, ...rest } = body;
  const first = system === undefined || system === null ? [] : [{ role: "system", content: system }];
  return {
    messages: [...first, ...messages].flatMap(readMessage),
    tools: [...listOf(tools), ...listOf(functions)].map(readTool),
    others: Object.entries(rest).map(([name, value]) => [name, pretty(value)]),
  };
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

function readParts(content: unknown): Part[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  return Array.isArray(content) ? content.map(readPart) : [other(content)];
}

function readPart(part: unknown): Part {
  if (!isObject(part)) return typeof part === "string" ? { kind: "text", text: part } : other(part);
  if (typeof part.text === "string") return { kind: "text", text: part.text };
  if (typeof part.refusal === "string") return { kind: "text", text: part.refusal };
  if (part.type === "image_url") return { kind: "other", text: `Image: ${nameOf(isObject(part.image_url) ? part.image_url.url : part.image_url)}` };
  if (part.type === "input_audio" && isObject(part.input_audio)) {
    return { kind: "other", text: `Audio: ${firstText(part.input_audio.format) ?? "?"}, ${sizeOf(part.input_audio.data)}` };
  }
  if (part.type === "file" && isObject(part.file)) {
    const { filename, file_id, file_data } = part.file;
    return { kind: "other", text: `File: ${firstText(filename, file_id) ?? "without a name"}${file_data ? `, ${sizeOf(file_data)}` : ""}` };
  }
  if ((part.type === "image" || part.type === "document") && isObject(part.source)) {
    const { url, media_type, data } = part.source;
    const named = [firstText(part.title), url === undefined ? firstText(media_type) : nameOf(url), data === undefined ? null : sizeOf(data)];
    if (part.source.type !== "text") return { kind: "other", text: `${part.type === "image" ? "Image" : "Document"}: ${named.filter(Boolean).join(", ")}` };
  }
  return other(part);
}

const LONGEST_NAME = 200;

// A data URL is as long as what it holds.
function nameOf(url: unknown): string {
  if (typeof url !== "string") return "?";
  const data = /^data:([^;,]*)[^,]*,/.exec(url);
  if (data) return `${data[1] || "data"}, ${sizeOf(url.slice(data[0].length))}`;
  return url.length > LONGEST_NAME ? `${url.slice(0, LONGEST_NAME)}…` : url;
}

function sizeOf(base64: unknown): string {
  const size = typeof base64 === "string" ? Math.floor((base64.length * 3) / 4) : 0;
  return size < 1024 ? `${size} bytes` : `${Math.round(size / 1024)} KiB`;
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

function other(value: unknown): Part {
  return { kind: "other", text: pretty(value) };
}

function pretty(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

function firstText(...values: unknown[]): string | null {
  return values.find((value): value is string => typeof value === "string" && value !== "") ?? null;
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
