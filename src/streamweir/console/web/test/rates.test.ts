// What a price says beyond input and output.
import assert from "node:assert/strict";
import { test } from "node:test";
import { otherRates } from "../src/lib/rates";

test("a plain price has nothing more to say", () => {
  assert.deepEqual(otherRates({ input_usd: "2.5", output_usd: "10" }), []);
});

test("each further rate is a line, in a fixed order", () => {
  const lines = otherRates({
    services: { batch: { input_usd: "1.25", output_usd: "5" } },
    tiers: [{ above_prompt_tokens: 200_000, rates: { input_usd: "5", output_usd: "20" } }],
    per_request_usd: "0.01",
    reasoning_usd: "12",
    cache_read_usd: "0",
    input_usd: "2.5",
    output_usd: "10",
  });
  assert.deepEqual(lines, [
    { what: "cached input", text: "$0" },
    { what: "reasoning", text: "$12.00" },
    { what: "for each request", text: "$0.01" },
    { what: "above 200,000 prompt tokens", text: "$5.00 in, $20.00 out" },
    { what: "service tier batch", text: "$1.25 in, $5.00 out" },
  ]);
});
