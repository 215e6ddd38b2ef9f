// Rates and stalls, and how long to wait before the next try.
import assert from "node:assert/strict";
import { test } from "node:test";
import { awayText, backoff, calmOf, rate, tokensPerSecond } from "../src/lib/pace";

test("a rate needs time and tokens", () => {
  assert.equal(tokensPerSecond(100, 1000, 3000), 50);
  for (const unknown of [tokensPerSecond(100, 1000, 1100), tokensPerSecond(1, 0, 9000), tokensPerSecond(9, null, 5), tokensPerSecond(9, 5, null), tokensPerSecond(null, 0, 9000)]) {
    assert.equal(unknown, null);
  }
  assert.deepEqual([rate(null), rate(3.14159), rate(49.6)], ["–", "3.1", "50"]);
});

test("quiet above five seconds, stalled above fifteen", () => {
  assert.deepEqual([0, 5000, 5001, 15_000, 15_001].map(calmOf), ["moving", "moving", "quiet", "quiet", "stalled"]);
});

test("for how long nobody reads a stream", () => {
  assert.deepEqual([900, 1000, 13_900, 60_999, 131_000].map((now) => awayText(1000, now)), ["none for 0 s", "none for 0 s", "none for 12 s", "none for 59 s", "none for 2 min 10 s"]);
});

test("tries come further apart, half a minute at the most", () => {
  assert.deepEqual([0, 1, 2, 9].map(backoff), [1000, 2000, 4000, 30_000]);
});
