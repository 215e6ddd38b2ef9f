// Verdicts and codes in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { explain, explainFlag, explainRule, explainSource, nameOfBucket } from "../src/lib/explain";
import { VERDICTS } from "../src/lib/filters";

test("every verdict is explained", () => {
  for (const verdict of VERDICTS) assert.notEqual(explain(verdict, null).what, explain("unheard of", null).what, verdict);
});

test("a code says more than its verdict", () => {
  const found = explain("rejected", "rate_limit_exceeded");
  assert.match(found.what, /limit of requests or tokens/);
  assert.equal(found.whose, "caller");
  const full = explain("rejected", "upstream_rate_limited");
  assert.match(full.what, /configured limit, so no provider was called/);
  assert.equal(full.whose, "operator");
  assert.match(explain("upstream_error", "upstream_rate_limited").what, /provider's own rate limit/);
  const stopped = explain("stopped", "stopped_by_operator");
  assert.equal(stopped.what, "The request was stopped while it was running. An operator stopped it.");
  assert.equal(stopped.whose, "operator");
});

test("every flag of a record has a sentence", () => {
  // Those of Settlement.flags (pipeline/settlement.py) and of policy/limits/reserve.py.
  for (const flag of ["usage_anomaly", "usage_cut", "missing_done", "junk_after_done", "finish_inferred", "max_tokens_set", "max_tokens_lowered", "max_tokens_clamped", "by_chat", "fallback"]) {
    assert.match(explainFlag(flag), /^[A-Z].*\.$/, flag);
  }
});

test("a word that nobody has written about is shown as it is", () => {
  assert.equal(explain("rejected", "toString").what, explain("rejected", null).what);
  assert.equal(explain("constructor", null).whose, null);
  assert.deepEqual([explainFlag("odd_flag"), explainSource("guess"), nameOfBucket("new_bucket")], ["odd_flag", "guess", "new bucket"]);
});

test("a charge rule says what went wrong and what is charged", () => {
  for (const what of ["failed_before", "failed_after", "truncated", "cut", "caller_left"])
    for (const charged of ["nothing", "delivered", "used", "cost"]) assert.match(explainRule(`${what}:${charged}`), /^The .*: .* charged.* \(charge rule /);
  assert.deepEqual([explainRule("odd:used"), explainRule("toString:constructor")], ["Charge rule: odd:used.", "Charge rule: toString:constructor."]);
});
