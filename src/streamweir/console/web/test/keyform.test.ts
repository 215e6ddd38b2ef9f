// The form of a key, and what of it is sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agentModel, claudeOf, codexOf, curlOf, fieldOf, formOf, isAmount, localMoment, NEW_KEY, newKeyBody, patchOf, stateOf } from "../src/lib/keyform";
import type { KeyView as Key } from "../src/lib/types";

const KEY: Key = {
  id: "key_1",
  workspace: "default",
  name: "ci",
  origin: "store",
  last4: "abcd",
  scopes: ["chat", "models"],
  models: ["gpt-*"],
  dialect: null,
  rpm: 60,
  tpm: null,
  max_streams: null,
  budget_usd: "25.5",
  budget_period: "month",
  spent_usd: "1",
  held_usd: "0",
  log_content: false,
  show_routing: false,
  show_cost: false,
  price_group: null,
  expires_ms: 1_900_000_012_345,
  created_ms: 1,
  revoked_ms: null,
  old_until_ms: null,
  resumable: false,
  person: null,
  used_ms: null,
  recent_requests: 0,
  recent_price_usd: "0",
};

test("a key that reads the metrics is for nothing else", () => {
  const problemsOf = (scopes: string[]) => newKeyBody({ ...NEW_KEY, name: "prometheus", scopes }).problems;
  assert.deepEqual(problemsOf(["metrics"]), {});
  assert.deepEqual(problemsOf(["chat", "metrics"]), { scopes: "The scope metrics goes with no other." });
  assert.deepEqual(problemsOf([]), { scopes: "Select at least one." });
});

test("a new key says what is wanted, null for the rest", () => {
  const { members, problems } = newKeyBody({ ...NEW_KEY, name: " ci ", rpm: "60", models: "a, b\n\nc*" });
  assert.deepEqual(problems, {});
  assert.deepEqual([members.name, members.rpm, members.tpm, members.budget_period], ["ci", 60, null, null]);
  assert.deepEqual(members.models, ["a", "b", "c*"]);
  assert.equal("workspace" in members, false);
  assert.equal(newKeyBody({ ...NEW_KEY, name: "x", workspace: "w" }).members.workspace, "w");
});

test("what cannot be is named at its field", () => {
  const { problems } = newKeyBody({ ...NEW_KEY, scopes: [], rpm: "0", tpm: "9999999999", max_streams: "1.5", budget_usd: "$5", expires: "soon" });
  assert.deepEqual(Object.keys(problems).sort(), ["budget_usd", "expires_ms", "max_streams", "name", "rpm", "scopes", "tpm"]);
});

test("a change sends what differs, and null where a limit goes", () => {
  const form = formOf(KEY);
  assert.deepEqual(patchOf(KEY, form).members, {});
  assert.deepEqual(patchOf(KEY, { ...form, rpm: "", name: "cd" }).members, { name: "cd", rpm: null });
  assert.deepEqual(patchOf(KEY, { ...form, budget_usd: "" }).members, { budget_usd: null, budget_period: null });
  assert.deepEqual(patchOf(KEY, { ...form, budget_period: "day" }).members, { budget_period: "day" });
  assert.deepEqual(patchOf(KEY, { ...form, expires: "" }).members, { expires_ms: null });
});

test("moments in the reader's zone are the same moments", () => {
  assert.equal(new Date(localMoment(1_900_000_012_345)).getTime(), 1_899_999_960_000);
});

test("amounts are digits, not exponents", () => {
  assert.ok(isAmount("0.000000001") && isAmount("25") && isAmount("-3", true));
  assert.ok(!isAmount("-3") && !isAmount("1e3") && !isAmount(".5") && !isAmount("1.0000000001"));
});

test("a param leads to its field", () => {
  assert.deepEqual([fieldOf("models[0]"), fieldOf("$.rpm"), fieldOf("budget_nano"), fieldOf(null)], ["models", "rpm", "budget_usd", null]);
});

test("revoked comes before expired", () => {
  assert.equal(stateOf(KEY, 0), "Active");
  assert.equal(stateOf(KEY, 2_000_000_000_000), "Expired");
  assert.equal(stateOf({ ...KEY, revoked_ms: 5 }, 2_000_000_000_000), "Revoked");
});

test("a model's name cannot leave its quotes", () => {
  assert.ok(curlOf("http://x", "sk", "a'; rm -rf /; '").includes(`"a'\\''; rm -rf /; '\\''"`));
  assert.ok(claudeOf("http://x", "sk", "a'b").includes(`ANTHROPIC_MODEL='a'\\''b'\n`));
  assert.ok(codexOf("http://x", "sk", "a'b").includes(`codex --model 'a'\\''b' -c model_provider=streamweir \\\n`));
});

test("an agent is not tried on a model that has no tools", () => {
  assert.equal(agentModel(["local/smollm2", "sim/hello", "best", "sim/agent"]), "best");
  assert.equal(agentModel(["local/smollm2", "sim/hello", "sim/agent"]), "sim/agent");
  assert.equal(agentModel(["local/smollm2"]), "MODEL");
});
