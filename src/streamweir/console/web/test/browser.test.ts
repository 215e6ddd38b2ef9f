// Browsers by what they say: each pretends to be another, so the order counts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browserOf } from "../src/lib/browser";

const MOZILLA = "Mozilla/5.0";
const CASES: readonly (readonly [string | null, string])[] = [
  [`${MOZILLA} (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36`, "Chrome, Linux"],
  [`${MOZILLA} (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0`, "Edge, Windows"],
  [`${MOZILLA} (Macintosh; Intel Mac OS X 10.15; rv:143.0) Gecko/20100101 Firefox/143.0`, "Firefox, macOS"],
  [`${MOZILLA} (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1`, "Safari, iOS"],
  [`${MOZILLA} (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36`, "Chrome, Android"],
  ["curl/8.14.1", "curl/8.14.1"],
  ["", "not known"],
  [null, "not known"],
];

test("a browser is named with its system, and a program by what it says", () => {
  for (const [agent, name] of CASES) assert.equal(browserOf(agent), name);
});
