// What an alert says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readAlert } from "../src/lib/alert";

test("things are named by their names, amounts are exact, and what says nothing is left out", () => {
  const data = { workspace: { id: "ws_1", name: "team" }, key: { id: "key_1", name: "ci" }, percent: 80, spent_usd: "20.4", resets_at: null, provider: "up", odd_usd: 7 };
  assert.deepEqual(readAlert(data), [
    { name: "key", text: "ci" },
    { name: "percent", text: "80" },
    { name: "spent", text: "$20.40" },
    { name: "provider", text: "up" },
    { name: "odd usd", text: "7" },
  ]);
});
