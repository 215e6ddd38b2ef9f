// A request as it was sent, filled in again: the playground makes the same of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, NEW_DRAFT, type Draft } from "../src/lib/draft";
import { draftOfBody, draftOfParameters } from "../src/lib/repeat";

const IMAGE = { name: "image/png, 3 bytes", url: "data:image/png;base64,AAAA" };
const TOOL = { type: "function", function: { name: "f", parameters: { type: "object" } } };
const FULL: Draft = {
  ...NEW_DRAFT,
  system: "Be brief.",
  turns: [
    { role: "user", text: "What is this?", images: [IMAGE] },
    { role: "assistant", text: "A weir.", calls: [{ id: "c1", name: "f", arguments: '{"a":1}' }] },
    { role: "tool", text: "yes", callId: "c1" },
    { role: "assistant", text: "It is." },
  ],
  prompt: "And this?",
  images: [IMAGE],
  temperature: "0.5",
  maxTokens: "64",
  topP: "0.9",
  effort: "low",
  tools: JSON.stringify([TOOL], null, 2),
};

for (const api of ["", "messages", "responses"]) {
  test(`what is sent by ${api || "chat completions"} is filled in and sent again`, () => {
    const { body } = bodyOf(FULL, "m", api);
    const again = bodyOf({ ...NEW_DRAFT, ...draftOfBody(body) }, "m", api);
    assert.deepEqual(again, { body, problems: {} });
    assert.deepEqual(bodyOf({ ...NEW_DRAFT, ...draftOfBody(JSON.stringify(body)) }, "m", api).body, body);
  });
}

test("stop sequences, the seed and usage of chat completions", () => {
  const { body } = bodyOf({ ...FULL, seed: "7", stop: "a\nb", hasUsage: false }, "m");
  assert.deepEqual(bodyOf({ ...NEW_DRAFT, ...draftOfBody(body) }, "m").body, body);
});

test("what is no request fills in nothing", () => {
  for (const odd of [null, undefined, 7, "x", [], "{"]) assert.deepEqual(draftOfBody(odd), {});
  assert.equal(draftOfBody({ messages: "odd", temperature: "warm", tools: 7 }).temperature, "");
});

test("where only the parameters are known they are filled in, and no text", () => {
  const parameters = { messages: 3, temperature: 0, max_tokens: 800, seed: 7, effort: "low", tools: ["f"] };
  const draft = { ...NEW_DRAFT, ...draftOfParameters(parameters, false), prompt: "Hello" };
  assert.deepEqual(bodyOf(draft, "m").body, {
    model: "m",
    messages: [{ role: "user", content: "Hello" }],
    temperature: 0,
    max_tokens: 800,
    seed: 7,
    reasoning_effort: "low",
    stream: false,
  });
  assert.deepEqual(draftOfParameters(null, true), { ...draftOfParameters({}, true), isStreamed: true });
});
