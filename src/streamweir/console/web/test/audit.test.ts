// What an audit row says beside who and what.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readDetail } from "../src/lib/audit";

test("amounts are dollars, lists are read, and what says nothing is left out", () => {
  const read = readDetail({ amount_nano: 250_000_000_000, budget_nano: -1, note: "", dialect: null, scopes: ["chat", "admin"], prepaid: true });
  assert.deepEqual(read, [
    { name: "amount", text: "$250.00" },
    { name: "budget", text: "−$0.000000001" },
    { name: "scopes", text: "chat, admin" },
    { name: "prepaid", text: "true" },
  ]);
});

test("a change is told as what was and what is", () => {
  const read = readDetail({ budget_nano: { from: null, to: 40_500_000_000 }, name: { from: "ci", to: "<b>" }, models: { from: ["a"], to: null } });
  assert.deepEqual(read, [
    { name: "budget", text: "none → $40.50" },
    { name: "name", text: "ci → <b>" },
    { name: "models", text: "a → none" },
  ]);
});

test("what is not foreseen stays as it is", () => {
  assert.deepEqual(readDetail({ more: { a: 1 }, odd_nano: "x" }), [
    { name: "more", text: '{"a":1}' },
    { name: "odd", text: "x" },
  ]);
});

const NAMES: Record<string, string> = { psn_1: "Ada", ws_2: "annex" };

test("moments have a zone, and ids are names where these are known", () => {
  const read = readDetail({ disabled_ms: { from: null, to: 0 }, person_id: "psn_1", workspace_id: { from: "ws_1", to: "ws_2" }, request_id: "req_1" }, (id) => NAMES[id] ?? id);
  assert.match(read[0]?.text ?? "", /^none → (1970-01-01|1969-12-31) \d\d:\d\d:\d\d UTC/);
  assert.deepEqual(read.slice(1), [
    { name: "person", text: "Ada" },
    { name: "workspace", text: "ws_1 → annex" },
    { name: "request_id", text: "req_1" },
  ]);
});
