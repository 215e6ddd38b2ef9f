// A request as a command or a few lines of code that ask the same again, of each API. Pure. Whatever a body holds, it
// is data in what is copied: quoted for the shell, literals for Python and JavaScript, and no character in it that cannot
// be seen.
import { EMBEDDINGS, isChat, MESSAGES } from "./apis";
import { sdkOf, type Sdk } from "./sdk";

export type Language = "curl" | "python" | "javascript" | "fetch";

export interface Asking {
  origin: string;
  dialect: string | null;
  body: string; // JSON, an object
}

export const KEY_VARIABLE = "STREAMWEIR_API_KEY";
type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Body = Record<string, Json>;

// `/v1` speaks the default dialect and all other APIs, every other dialect has a prefix of its own.
export function baseUrl(origin: string, dialect: string | null): string {
  const isPlain = dialect === null || dialect === "openai" || !isChat(dialect);
  return isPlain ? `${origin}/v1` : `${origin}/${encodeURIComponent(dialect)}/v1`;
}

// Where nothing is known of what was said.
export function skeleton(model: string | null, isStream: boolean, dialect: string | null = null): string {
  const { asked } = sdkOf(dialect);
  return JSON.stringify({
    ...(model === null ? {} : { model }),
    ...(dialect === MESSAGES ? { max_tokens: 1024 } : {}),
    [asked]: asked === "messages" ? [{ role: "user", content: "Hello!" }] : "Hello!",
    ...(isStream && dialect !== EMBEDDINGS ? { stream: true } : {}),
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
  const sdk = sdkOf(asking.dialect);
  const url = baseUrl(asking.origin, asking.dialect);
  const address = `${url}/${sdk.path}`;
  const client = asking.dialect === MESSAGES ? anthropic(asking.origin) : openai(url);
  switch (language) {
    case "curl":
      return curl(address, asking.body, body.stream === true);
    case "python":
      return python(sdk, client, body);
    case "javascript":
      return javascript(sdk, client, body);
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

interface Client {
  python: readonly string[];
  javascript: readonly string[];
}

function openai(url: string): Client {
  return {
    python: ["from openai import OpenAI", "", `client = OpenAI(base_url=${literal(url, PYTHON)}, api_key=os.environ["${KEY_VARIABLE}"])`],
    javascript: ['import OpenAI from "openai";', "", `const client = new OpenAI({ baseURL: ${literal(url, JAVASCRIPT)}, apiKey: process.env.${KEY_VARIABLE} });`],
  };
}

// Its base address is without `/v1`.
function anthropic(origin: string): Client {
  return {
    python: ["from anthropic import Anthropic", "", `client = Anthropic(base_url=${literal(origin, PYTHON)}, api_key=os.environ["${KEY_VARIABLE}"])`],
    javascript: [
      'import Anthropic from "@anthropic-ai/sdk";',
      "",
      `const client = new Anthropic({ baseURL: ${literal(origin, JAVASCRIPT)}, apiKey: process.env.${KEY_VARIABLE} });`,
    ],
  };
}

function python(sdk: Sdk, client: Client, body: Body): string {
  const { model = "", [sdk.asked]: asked = [], ...rest } = body;
  const known = Object.entries(rest).filter(([name]) => sdk.named.has(name));
  const others = Object.entries(rest).filter(([name]) => !sdk.named.has(name));
  const given: [string, Json][] = [["model", model], [sdk.asked, asked], ...known];
  if (others.length) given.push(["extra_body", Object.fromEntries(others)]);
  const isStream = body.stream === true;
  return [
    "import os",
    "",
    ...client.python,
    `${isStream ? "stream" : sdk.answer} = client.${sdk.method}(`,
    ...given.map(([name, value]) => `    ${name}=${literal(value, PYTHON, 1)},`),
    ")",
    ...(isStream ? sdk.python.stream : [sdk.python.whole]),
  ].join("\n");
}

function javascript(sdk: Sdk, client: Client, body: Body): string {
  const isStream = body.stream === true;
  return [
    ...client.javascript,
    `const ${isStream ? "stream" : sdk.answer} = await client.${sdk.method}(${literal(body, JAVASCRIPT)});`,
    ...(isStream ? sdk.javascript.stream : [sdk.javascript.whole]),
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
