// A prompt as a conversation: nothing is lost, and nothing is fetched.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readable, readConversation } from "../src/lib/conversation";

const read = (body: unknown) => readConversation(JSON.stringify(body));

test("messages with their roles, texts and calls", () => {
  const found = read({
    model: "m",
    temperature: 0.5,
    messages: [
      { role: "system", content: "terse" },
      { role: "assistant", content: null, reasoning_content: "hm", tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: '{"a":1}' } }] },
      { role: "tool", tool_call_id: "c1", content: "12" },
      { role: "user", name: "eve", content: [{ type: "text", text: "look" }] },
    ],
    tools: [{ type: "function", function: { name: "f" } }],
  });
  assert.deepEqual(found?.messages.map((message) => [message.role, message.parts.map((part) => part.text).join()]), [
    ["system", "terse"],
    ["assistant", ""],
    ["tool", "12"],
    ["user", "look"],
  ]);
  assert.deepEqual(found?.messages[1]?.calls, [{ id: "c1", name: "f", arguments: '{"a":1}' }]);
  assert.deepEqual([found?.messages[1]?.reasoning, found?.messages[2]?.answers, found?.messages[3]?.name], ["hm", "c1", "eve"]);
  assert.deepEqual(found?.others, [
    ["model", "m"],
    ["temperature", "0.5"],
  ]);
  assert.equal(found?.tools[0]?.name, "f");
});

test("what lies elsewhere is named", () => {
  const parts = read({
    messages: [
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "https://elsewhere.example/x.png" } },
          { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(4096)}` } },
          { type: "input_audio", input_audio: { format: "wav", data: "AAAA" } },
          { type: "file", file: { filename: "a.pdf", file_data: "AAAA" } },
        ],
      },
    ],
  })?.messages[0]?.parts;
  const shown = parts?.map(({ kind, text }) => ({ kind, text }));
  assert.deepEqual(shown, [
    { kind: "other", text: "Image: https://elsewhere.example/x.png" },
    { kind: "other", text: "Image: image/png, 3 KiB" },
    { kind: "other", text: "Audio: wav, 3 bytes" },
    { kind: "other", text: "File: a.pdf, 3 bytes" },
  ]);
});

test("what is not as it should be is shown as it is", () => {
  const found = read({ messages: [7, { content: { odd: 1 } }, { role: 3, content: ["s", null, { type: "new", x: 1 }], cache: true }, { role: "user", content: [], function_call: { name: "g", arguments: "x" } }] });
  assert.deepEqual(found?.messages.map((message) => message.role), ["?", "?", "?", "user"]);
  assert.deepEqual(found?.messages[0]?.parts, [{ kind: "other", text: "7" }]);
  assert.match(found?.messages[1]?.parts[0]?.text ?? "", /"odd": 1/);
  assert.deepEqual(found?.messages[2]?.parts.map((part) => part.kind), ["text", "other", "other", "other"]);
  assert.deepEqual(found?.messages[3]?.calls, [{ id: null, name: "g", arguments: "x" }]);
  for (const prompt of ["", "{", "[]", "{}", '{"messages": 1}']) assert.equal(readConversation(prompt), null);
});

test("arguments are indented where they are JSON", () => {
  assert.equal(readable('{"a":1}'), '{\n  "a": 1\n}');
  for (const text of ["", "{", "12", '"x"', "plain"]) assert.equal(readable(text), text);
});

test("Messages: the system prompt, thinking, calls and their results", () => {
  const found = read({
    model: "m",
    max_tokens: 10,
    system: [{ type: "text", text: "terse" }],
    messages: [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "s" },
          { type: "text", text: "I look." },
          { type: "tool_use", id: "t1", name: "f", input: { a: 1 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", is_error: true, content: [{ type: "text", text: "no network" }] },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
          { type: "document", title: "plan", source: { type: "url", url: "https://example.com/a.pdf" } },
        ],
      },
    ],
    tools: [{ name: "f", input_schema: {} }],
  });
  assert.deepEqual(
    found?.messages.map((message) => [message.role, message.parts.map((part) => part.text).join("; ")]),
    [
      ["system", "terse"],
      ["user", "Weather?"],
      ["assistant", "I look."],
      ["tool", "The tool failed.; no network"],
      ["user", "Image: image/png, 3 bytes; Document: plan, https://example.com/a.pdf"],
    ],
  );
  assert.deepEqual([found?.messages[2]?.reasoning, found?.messages[3]?.answers], ["hm", "t1"]);
  assert.deepEqual(found?.messages[2]?.calls, [{ id: "t1", name: "f", arguments: '{"a":1}' }]);
  assert.deepEqual([found?.tools[0]?.name, found?.others.map(([name]) => name)], ["f", ["model", "max_tokens"]]);
});

test("Responses: instructions, items of one turn together, calls and their results", () => {
  const found = read({
    model: "m",
    instructions: "terse",
    input: [
      { role: "user", content: "Weather?" },
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "hm" }], encrypted_content: "x" },
      { type: "message", id: "msg_1", status: "completed", role: "assistant", content: [{ type: "output_text", text: "I look.", annotations: [] }] },
      { type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: '{"a":1}' },
      { type: "custom_tool_call", call_id: "c2", name: "patch", namespace: "files", input: "***" },
      { type: "function_call_output", call_id: "c1", output: "rain" },
      { type: "custom_tool_call_output", call_id: "c2", output: [{ type: "input_text", text: "done" }] },
      { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "x" },
      { type: "message", role: "user", content: [{ type: "input_image", image_url: "https://example.com/a.png" }, { type: "input_file", filename: "a.pdf", file_data: "AAAA" }] },
      { type: "item_of_tomorrow", x: 1 },
      7,
    ],
    tools: [{ type: "function", name: "f" }],
  });
  assert.deepEqual(
    found?.messages.map((message) => [message.role, message.parts.map((part) => part.text).join("; ")]),
    [
      ["instructions", "terse"],
      ["user", "Weather?"],
      ["assistant", "I look."],
      ["tool", "rain"],
      ["tool", "done"],
      ["assistant", "Reasoning that only the provider can read."],
      ["user", "Image: https://example.com/a.png; File: a.pdf, 3 bytes"],
      ["item_of_tomorrow", '{\n  "type": "item_of_tomorrow",\n  "x": 1\n}'],
      ["?", "7"],
    ],
  );
  assert.equal(found?.messages[2]?.reasoning, "hm");
  assert.deepEqual(found?.messages[2]?.calls, [
    { id: "c1", name: "f", arguments: '{"a":1}' },
    { id: "c2", name: "files.patch", arguments: "***" },
  ]);
  assert.deepEqual([found?.messages[3]?.answers, found?.tools[0]?.name, found?.others], ["c1", "f", [["model", "m"]]]);
});

test("a text, several and tokens, as an input or a prompt", () => {
  const shown = (body: object) => read(body)?.messages.map((message) => [message.role, message.parts.map((part) => `${part.kind} ${part.text}`)]);
  assert.deepEqual(shown({ input: "Hi" }), [["input", ["text Hi"]]]);
  assert.deepEqual(shown({ input: ["a", "b"] }), [["input", ["text a", "text b"]]]);
  assert.deepEqual(shown({ prompt: "Once" }), [["prompt", ["text Once"]]]);
  assert.deepEqual(shown({ input: [1] }), [["input", ["other [\n  1\n]"]]]);
  assert.deepEqual(read({ messages: [], input: "x" })?.others, [["input", "x"]]);
});
