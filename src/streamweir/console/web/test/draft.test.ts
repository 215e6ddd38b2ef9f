// The body that the playground sends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, continued, EXAMPLE_TOOLS, mayUse, NEW_DRAFT, readTools, type Draft } from "../src/lib/draft";

const draft = (more: Partial<Draft> = {}): Draft => ({ ...NEW_DRAFT, prompt: "Hi", ...more });

test("what is empty is left out", () => {
  assert.deepEqual(bodyOf(draft(), "m"), {
    body: { model: "m", messages: [{ role: "user", content: "Hi" }], stream: true, stream_options: { include_usage: true } },
    problems: {},
  });
  assert.equal("model" in bodyOf(draft(), "").body, false);
});

test("what is said is sent", () => {
  const { body, problems } = bodyOf(
    draft({ system: "Be brief.", temperature: "0", maxTokens: "64", topP: "0.9", seed: "-7", stop: "a\n\n b", effort: "low", isStreamed: false, tools: EXAMPLE_TOOLS }),
    "m",
  );
  assert.deepEqual(problems, {});
  assert.deepEqual(body.messages, [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }]);
  assert.deepEqual([body.temperature, body.max_tokens, body.top_p, body.seed, body.stop, body.reasoning_effort], [0, 64, 0.9, -7, ["a", " b"], "low"]);
  assert.equal(body.stream, false);
  assert.equal("stream_options" in body, false);
  assert.equal((body.tools as unknown[]).length, 1);
});

test("what cannot be read is named", () => {
  const { problems } = bodyOf(draft({ prompt: " ", temperature: "warm", maxTokens: "1.5", seed: "1e99", tools: "[" }), "m");
  assert.deepEqual(Object.keys(problems).sort(), ["maxTokens", "prompt", "seed", "temperature", "tools"]);
});

test("tools are a list of objects with a type; functions have names", () => {
  assert.deepEqual(readTools(" "), []);
  assert.equal(typeof readTools("{}"), "string");
  assert.equal(typeof readTools("[1]"), "string");
  assert.equal(typeof readTools('[{"type":"function"}]'), "string");
  assert.equal((readTools('[{"type":"web_search"}]') as unknown[]).length, 1);
});

test("an answer goes on as a turn, its calls wait for their tools", () => {
  const choice = { index: 0, text: "Yes", reasoning: "Hm", refusal: "", calls: [], finish: "stop" };
  assert.deepEqual(continued(draft(), choice).turns, [{ role: "user", text: "Hi" }, { role: "assistant", text: "Yes" }]);
  assert.equal(continued(draft(), choice).prompt, "");
  const called = continued(draft(), { ...choice, text: "", calls: [{ id: "c1", name: "f", arguments: "{}" }] });
  assert.deepEqual(bodyOf(called, "m").body.messages, [
    { role: "user", content: "Hi" },
    { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c1", content: "" },
  ]);
});

test("the models of a key are ids or beginnings", () => {
  assert.ok(mayUse(null, "x"));
  assert.ok(mayUse(["a", "gpt-*"], "gpt-4o"));
  assert.ok(!mayUse(["a", "gpt-*"], "ab"));
});
