// Requests to copy: whatever a body holds is data in what is copied.
import assert from "node:assert/strict";
import { test } from "node:test";
import { baseUrl, JAVASCRIPT, literal, PYTHON, quoteForShell, readBody, skeleton, snippet } from "../src/lib/snippet";

const ORIGIN = "http://127.0.0.1:8080";
const BODY = { model: "m", messages: [{ role: "user", content: "It's $HOME `id` $(id) \\ \"x\" \n !" }], stream: true };
const asking = (body: unknown, dialect: string | null = "openai") => ({ origin: ORIGIN, dialect, body: JSON.stringify(body) });

// What a shell makes of a word in single quotes and escaped quotes between them.
function asShell(word: string): string {
  return word
    .split("'\\''")
    .join("\0")
    .replace(/^'([^']*)'$/s, "$1")
    .replaceAll("\0", "'");
}

test("the address is that of the dialect", () => {
  assert.equal(baseUrl(ORIGIN, "openai"), `${ORIGIN}/v1`);
  assert.equal(baseUrl(ORIGIN, null), `${ORIGIN}/v1`);
  assert.equal(baseUrl(ORIGIN, "bitseek"), `${ORIGIN}/bitseek/v1`);
  assert.equal(baseUrl(ORIGIN, "a'b/c"), `${ORIGIN}/a'b%2Fc/v1`);
});

test("curl: nothing inside the body means anything to a shell", () => {
  const text = snippet("curl", asking(BODY));
  const quoted = text.slice(text.indexOf(" -d ") + 4);
  assert.ok(quoted.startsWith("'") && quoted.endsWith("'"));
  assert.deepEqual(JSON.parse(asShell(quoted)), BODY);
  assert.match(text, /^curl -N 'http:\/\/127\.0\.0\.1:8080\/v1\/chat\/completions' \\\n/);
  assert.ok(text.includes('-H "Authorization: Bearer $STREAMWEIR_API_KEY"'));
  assert.equal(quoteForShell("a'b''c"), "'a'\\''b'\\'''\\''c'");
});

test("curl: a body that is too long for an argument comes from the standard input", () => {
  const body = { messages: [{ content: "ü".repeat(60_000) + "'" }] };
  const text = snippet("curl", asking(body));
  const [, document] = /<<'END_OF_BODY'\n([\s\S]*)\nEND_OF_BODY$/.exec(text) ?? [];
  assert.deepEqual(JSON.parse(document ?? ""), body);
  assert.ok(!text.startsWith("curl -N"));
});

test("a character that cannot be seen is an escape everywhere", () => {
  const body = { model: "m", messages: [{ role: "user", content: "a\u202eb\u2028c\u0085d\u007fe\u001b[31mf\ufeff" }] };
  for (const language of ["curl", "python", "javascript", "fetch"] as const) {
    const text = snippet(language, asking(body));
    assert.ok(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u202e\ufeff]/.test(text), language);
    assert.ok(text.includes("a\\u202eb\\u2028c\\u0085d\\u007fe\\u001b[31mf\\ufeff"), language);
  }
});

test("JavaScript: the literal is the body, `__proto__` too", () => {
  const body = JSON.parse('{"__proto__": {"x": 1}, "a-b": [true, null, -1.5, 1e21], "c": "</script>`${x}`", "d": {}, "e": []}') as Record<string, never>;
  const made = new Function(`return ${literal(body, JAVASCRIPT)}`)() as object;
  assert.equal(JSON.stringify(made), JSON.stringify(body));
  assert.ok(Object.hasOwn(made, "__proto__"));
});

test("JavaScript: with the SDK and without", () => {
  const sdk = snippet("javascript", asking(BODY, "opentoken"));
  assert.ok(sdk.includes('baseURL: "http://127.0.0.1:8080/opentoken/v1", apiKey: process.env.STREAMWEIR_API_KEY'));
  assert.ok(sdk.includes("for await (const chunk of stream)"));
  const plain = snippet("fetch", asking({ model: "m", messages: [] }));
  assert.ok(plain.includes('fetch("http://127.0.0.1:8080/v1/chat/completions"'));
  assert.ok(plain.includes("console.log(await response.json());"));
});

test("Python: words and escapes of its own", () => {
  assert.equal(literal({ a: true, b: false, c: null, d: [1, "x'\"\n\\"] }, PYTHON), '{"a": True, "b": False, "c": None, "d": [1, "x\'\\"\\n\\\\"]}');
  assert.equal(literal("\ud800", PYTHON), '"\\ud800"');
});

test("Python: what the SDK does not take by name goes into extra_body", () => {
  const text = snippet("python", asking({ ...BODY, temperature: 0.2, "weird name": 1, reasoning: { exclude: true } }));
  assert.ok(text.includes("    temperature=0.2,\n"));
  assert.ok(text.includes('    extra_body={"weird name": 1, "reasoning": {"exclude": True}},\n'));
  assert.ok(text.includes("for chunk in stream:"));
  assert.ok(text.includes('base_url="http://127.0.0.1:8080/v1"'));
});

test("bitseek always streams", () => {
  const bare = asking({ messages: [] }, "bitseek");
  assert.ok(snippet("curl", bare).startsWith("curl -N"));
  assert.ok(snippet("python", bare).includes("    stream=True,\n"));
  assert.ok(snippet("javascript", bare).includes("stream: true"));
});

test("a long body has a member a line", () => {
  const text = literal({ messages: [{ role: "user", content: "x".repeat(90) }] }, PYTHON);
  assert.equal(text, `{\n    "messages": [\n        {\n            "role": "user",\n            "content": "${"x".repeat(90)}",\n        },\n    ],\n}`);
});

test("what stands in for a body, and what cannot be one", () => {
  assert.deepEqual(JSON.parse(skeleton("m", true)), { model: "m", messages: [{ role: "user", content: "Hello!" }], stream: true });
  assert.deepEqual(Object.keys(JSON.parse(skeleton(null, false)) as object), ["messages"]);
  for (const text of ["", "[]", "1", '{"a":', "null"]) assert.equal(readBody(text), null);
});

test("Messages: its own path, and Anthropic's SDK", () => {
  const body = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }], context_management: {}, stream: true };
  assert.match(snippet("curl", asking(body, "messages")), /^curl -N 'http:\/\/127\.0\.0\.1:8080\/v1\/messages' \\\n/);
  assert.match(snippet("fetch", asking(body, "messages")), /fetch\("http:\/\/127\.0\.0\.1:8080\/v1\/messages"/);
  const python = snippet("python", asking(body, "messages"));
  assert.ok(python.includes('client = Anthropic(base_url="http://127.0.0.1:8080", api_key=os.environ["STREAMWEIR_API_KEY"])'));
  assert.ok(python.includes("extra_body={\"context_management\": {}}"));
  assert.ok(python.includes("for event in stream:"));
  const javascript = snippet("javascript", asking({ ...body, stream: false }, "messages"));
  assert.ok(javascript.includes('new Anthropic({ baseURL: "http://127.0.0.1:8080"'));
  assert.ok(javascript.includes("const message = await client.messages.create({"));
  assert.deepEqual(JSON.parse(skeleton("m", true, "messages")), { model: "m", max_tokens: 1024, messages: [{ role: "user", content: "Hello!" }], stream: true });
});

test("Responses: its own path, by the SDK of OpenAI", () => {
  const body = { stream: true, input: "Hi", model: "m", reasoning: { effort: "low" }, odd: 1 };
  assert.match(snippet("curl", asking(body, "responses")), /^curl -N 'http:\/\/127\.0\.0\.1:8080\/v1\/responses' \\\n/);
  const python = snippet("python", asking(body, "responses"));
  assert.ok(python.includes('stream = client.responses.create(\n    model="m",\n    input="Hi",\n    stream=True,\n    reasoning={"effort": "low"},\n    extra_body={"odd": 1},\n)'));
  assert.ok(python.includes('if event.type == "response.output_text.delta":'));
  const javascript = snippet("javascript", asking({ ...body, stream: false }, "responses"));
  assert.ok(javascript.includes("const response = await client.responses.create({"));
  assert.ok(javascript.endsWith("console.log(response.output_text);"));
  assert.deepEqual(JSON.parse(skeleton("m", true, "responses")), { model: "m", input: "Hello!", stream: true });
});

test("text completions", () => {
  assert.deepEqual(JSON.parse(skeleton("m", true, "completions")), { model: "m", prompt: "Hello!", stream: true });
  const python = snippet("python", asking({ model: "m", prompt: "Once", stream: true }, "completions"));
  assert.ok(python.includes('stream = client.completions.create(\n    model="m",\n    prompt="Once",\n    stream=True,\n)'));
  assert.match(snippet("fetch", asking({ prompt: "Once" }, "completions")), /127\.0\.0\.1:8080\/v1\/completions"/);
});

test("embeddings are never streamed", () => {
  assert.deepEqual(JSON.parse(skeleton("m", false, "embeddings")), { model: "m", input: "Hello!" });
  assert.match(snippet("python", asking({ model: "m", input: ["a"] }, "embeddings")), /answer = client\.embeddings\.create\(\n {4}model="m",\n {4}input=\["a"\],\n\)/);
});
