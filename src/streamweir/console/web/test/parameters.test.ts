// The parameters of a request, in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parameterRows } from "../src/lib/parameters";

test("what was sent is named in one order, and what was not is left out", () => {
  const rows = parameterRows({ tool_choice: "auto", tools: ["f", "g"], tool_count: 40, parallel_tool_calls: false, temperature: 0, max_tokens: 12_000, seed: 12_345 });
  assert.deepEqual(rows, [
    ["Temperature", "0"],
    ["Max tokens", "12,000"],
    ["Tools", "f, g and 38 more"],
    ["Tool choice", "auto"],
    ["Parallel tool calls", "no"],
    ["Seed", "12345"],
  ]);
  assert.deepEqual(parameterRows({}), []);
});
