// A request as a command or a few lines of code that ask the same again, of either API. Pure. Whatever a body holds, it
// is data in what is copied: quoted for the shell, literals for Python and JavaScript, and no character in it that cannot
// be seen.
import { MESSAGES } from "./apis";

export type Language = "curl" | "python" | "javascript" | "fetch";

export interface Asking {
  origin: string;
  dialect: string | null;
  body: string; // JSON, an object
}

export const KEY_VARIABLE = "STREAMWEIR_API_KEY";
type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Body = Record<string, Json>;

// `/v1` speaks the default dialect and the Messages API, every other dialect has a prefix of its own.
export function baseUrl(origin: string, dialect: string | null): string {
  const isPlain = dialect === null || dialect === "openai" || dialect === MESSAGES;
  return isPlain ? `${origin}/v1` : `${origin}/${encodeURIComponent(dialect)}/v1`;
}

// Where nothing is known of what was said.
export function skeleton(model: string | null, isStream: boolean, dialect: string | null = null): string {
  return JSON.stringify({
    ...(model === null ? {} : { model }),
    ...(dialect === MESSAGES ? { max_tokens: 1024 } : {}),
    messages: [{ role: "user", content: "Hello!" }],
    ...(isStream ? { stream: true } : {}),
  });
}

// The kept body, or null where it cannot be sent again: it was cut, or never was an object.
export function readBody(text: string): Body | null {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Body) : null;
  } catch {
    return null;
  }
}

export function snippet(language: Language, asking: Asking): string {
  const body = readBody(asking.body) ?? {};
  if (asking.dialect === "bitseek") body.stream = true; // it always streams, which an SDK has to know
  const url = baseUrl(asking.origin, asking.dialect);
  const isMessages = asking.dialect === MESSAGES;
  const address = `${url}/${isMessages ? "messages" : "chat/completions"}`;
  switch (language) {
    case "curl":
      return curl(address, asking.body, body.stream === true);
    case "python":
      return isMessages ? anthropicPython(asking.origin, body) : python(url, body);
    case "javascript":
      return isMessages ? anthropicJavascript(asking.origin, body) : javascript(url, body);
    case "fetch":
      return fetching(address, body);
  }
}

// What a terminal or an editor might obey or hide. In JSON it can only stand inside a string, where an escape says the
// same; so it does in Python and JavaScript.
const UNSEEN = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function seen(text: string): string {
  return text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Nothing inside single quotes means anything to a shell, but a single quote.
export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const LONGEST_ARGUMENT = 100_000; // bytes; Linux takes 128 KiB

function curl(url: string, body: string, isStream: boolean): string {
  const text = seen(body.trim());
  const lines = [
    `curl ${isStream ? "-N " : ""}${quoteForShell(url)}`,
    `  -H "Authorization: Bearer $${KEY_VARIABLE}"`,
    `  -H 'Content-Type: application/json'`,
  ];
  if (new TextEncoder().encode(text).length <= LONGEST_ARGUMENT) return [...lines, `  -d ${quoteForShell(text)}`].join(" \\\n");
  const end = "END_OF_BODY"; // no line of JSON is this: a string cannot go over lines
  return `${[...lines, `  --data-binary @- <<'${end}'`].join(" \\\n")}\n${text}\n${end}`;
}

// What `create` of the openai SDK takes by name; it refuses others, which go into `extra_body`.
const BY_NAME = new Set(
  `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
   modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort response_format
   safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p
   user verbosity web_search_options`.split(/\s+/),
);

function python(url: string, body: Body): string {
  const { model = "", messages = [], ...rest } = body;
  const known = Object.entries(rest).filter(([name]) => BY_NAME.has(name));
  const others = Object.entries(rest).filter(([name]) => !BY_NAME.has(name));
  const given: [string, Json][] = [["model", model], ["messages", messages], ...known];
  if (others.length) given.push(["extra_body", Object.fromEntries(others)]);
  const isStream = body.stream === true;
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${literal(url, PYTHON)}, api_key=os.environ["${KEY_VARIABLE}"])`,
    `${isStream ? "stream" : "answer"} = client.chat.completions.create(`,
    ...given.map(([name, value]) => `    ${name}=${literal(value, PYTHON, 1)},`),
    ")",
    ...(isStream
      ? ["for chunk in stream:", "    if chunk.choices:", '        print(chunk.choices[0].delta.content or "", end="", flush=True)']
      : ["print(answer.choices[0].message.content)"]),
  ].join("\n");
}

function javascript(url: string, body: Body): string {
  const isStream = body.stream === true;
  return [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: ${literal(url, JAVASCRIPT)}, apiKey: process.env.${KEY_VARIABLE} });`,
    `const ${isStream ? "stream" : "answer"} = await client.chat.completions.create(${literal(body, JAVASCRIPT)});`,
    ...(isStream
      ? ["for await (const chunk of stream) {", '  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");', "}"]
      : ["console.log(answer.choices[0].message.content);"]),
  ].join("\n");
}

// What `create` of the anthropic SDK takes by name.
const BY_NAME_OF_MESSAGES = new Set(
  `cache_control container max_tokens messages metadata model output_config service_tier stop_sequences stream system
   temperature thinking tool_choice tools top_k top_p`.split(/\s+/),
);

// Its base address is without `/v1`.
function anthropicPython(origin: string, body: Body): string {
  const isStream = body.stream === true;
  const given = Object.entries(body).filter(([name]) => BY_NAME_OF_MESSAGES.has(name));
  const others = Object.entries(body).filter(([name]) => !BY_NAME_OF_MESSAGES.has(name));
  if (others.length) given.push(["extra_body", Object.fromEntries(others)]);
  return [
    "import os",
    "",
    "from anthropic import Anthropic",
    "",
    `client = Anthropic(base_url=${literal(origin, PYTHON)}, api_key=os.environ["${KEY_VARIABLE}"])`,
    `${isStream ? "stream" : "message"} = client.messages.create(`,
    ...given.map(([name, value]) => `    ${name}=${literal(value, PYTHON, 1)},`),
    ")",
    ...(isStream
      ? ["for event in stream:", '    if event.type == "content_block_delta" and event.delta.type == "text_delta":', '        print(event.delta.text, end="", flush=True)']
      : ['print("".join(block.text for block in message.content if block.type == "text"))']),
  ].join("\n");
}

function anthropicJavascript(origin: string, body: Body): string {
  const isStream = body.stream === true;
  return [
    'import Anthropic from "@anthropic-ai/sdk";',
    "",
    `const client = new Anthropic({ baseURL: ${literal(origin, JAVASCRIPT)}, apiKey: process.env.${KEY_VARIABLE} });`,
    `const ${isStream ? "stream" : "message"} = await client.messages.create(${literal(body, JAVASCRIPT)});`,
    ...(isStream
      ? ["for await (const event of stream) {", '  if (event.type === "content_block_delta" && event.delta.type === "text_delta") process.stdout.write(event.delta.text);', "}"]
      : ['for (const block of message.content) if (block.type === "text") process.stdout.write(block.text);']),
  ].join("\n");
}

function fetching(url: string, body: Body): string {
  return [
    `const response = await fetch(${literal(url, JAVASCRIPT)}, {`,
    '  method: "POST",',
    "  headers: {",
    `    authorization: \`Bearer \${process.env.${KEY_VARIABLE}}\`,`,
    '    "content-type": "application/json",',
    "  },",
    `  body: JSON.stringify(${literal(body, JAVASCRIPT, 1)}),`,
    "});",
    ...(body.stream === true
      ? ["const decoder = new TextDecoder();", "for await (const bytes of response.body) process.stdout.write(decoder.decode(bytes, { stream: true }));"]
      : ["console.log(await response.json());"]),
  ].join("\n");
}

interface Tongue {
  words: { null: string; true: string; false: string };
  step: string;
  nameOf: (name: string) => string;
}

const PYTHON: Tongue = { words: { null: "None", true: "True", false: "False" }, step: "    ", nameOf: text };
const JAVASCRIPT: Tongue = {
  words: { null: "null", true: "true", false: "false" },
  step: "  ",
  // `"__proto__": x` would set the prototype.
  nameOf: (name) => (name === "__proto__" ? '["__proto__"]' : /^[A-Za-z_]\w*$/.test(name) ? name : text(name)),
};

function text(value: string): string {
  return seen(JSON.stringify(value));
}

const LONGEST_LINE = 80;

// One line where it is short, else a member a line.
export function literal(value: Json, tongue: Tongue, depth = 0): string {
  if (value === null) return tongue.words.null;
  if (typeof value === "boolean") return value ? tongue.words.true : tongue.words.false;
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : value > 0 ? "1e999" : "-1e999";
  const isList = Array.isArray(value);
  const [open, close] = isList ? "[]" : "{}";
  const parts = isList
    ? value.map((each) => literal(each, tongue, depth + 1))
    : Object.entries(value).map(([name, each]) => `${tongue.nameOf(name)}: ${literal(each, tongue, depth + 1)}`);
  if (!parts.length) return `${open}${close}`;
  const pad = !isList && tongue === JAVASCRIPT ? " " : "";
  const line = `${open}${pad}${parts.join(", ")}${pad}${close}`;
  if (line.length + depth * tongue.step.length <= LONGEST_LINE && !line.includes("\n")) return line;
  const inner = tongue.step.repeat(depth + 1);
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join("")}${tongue.step.repeat(depth)}${close}`;
}

export { JAVASCRIPT, PYTHON };
