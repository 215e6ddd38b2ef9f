// What is said of the attempts of a request.
import assert from "node:assert/strict";
import { test } from "node:test";
import { attemptTexts, hasAnswer } from "../src/lib/attempts";
import type { AttemptView } from "../src/lib/types";

const OLD: AttemptView = { target: "sim/one", error: null, duration_s: 1, resends: 0 };

test("an attempt that failed, with all that is known of it", () => {
  const [text] = attemptTexts([
    {
      ...OLD,
      error: "upstream_rate_limited",
      status: 429,
      provider_code: "rate_limit_exceeded",
      provider_type: "requests",
      provider_param: "model",
      provider_message: "Limit reached.",
      advice: "Try again later.",
      provider_request_id: "req_1",
      address: "192.0.2.1:3128",
      via_proxy: true,
      reused: false,
      dns_s: 0.002,
      connect_s: 0.0111,
      tls_s: 0.024,
      first_byte_s: 0.31,
    },
  ]);
  assert.deepEqual(text, {
    name: "Attempt",
    answer: "429 rate_limit_exceeded",
    about: "type requests, parameter model",
    message: "Limit reached. Try again later.",
    requestId: "req_1",
    address: "192.0.2.1:3128 (proxy)",
    connection: "new: DNS 2 ms, connect 11 ms, TLS 24 ms",
    firstByte: "after 310 ms",
  });
});

test("a kept connection, and a type without a code", () => {
  const [one, two] = attemptTexts([
    { ...OLD, status: 200, address: "[::1]:443", reused: true, first_byte_s: 0.5 },
    { ...OLD, status: 529, provider_type: "overloaded_error" },
  ]);
  assert.equal(one?.name, "Attempt 1");
  assert.deepEqual([one?.answer, one?.connection, one?.address], ["200", "reused", "[::1]:443"]);
  assert.deepEqual([two?.name, two?.answer, two?.about, two?.connection], ["Attempt 2", "529 overloaded_error", "", ""]);
});

test("rows of older versions have nothing to say", () => {
  assert.ok(!hasAnswer(OLD));
  assert.ok(hasAnswer({ ...OLD, status: 200 }));
  assert.ok(hasAnswer({ ...OLD, dns_s: 0.1 }), "a name that was not found");
  const [text] = attemptTexts([OLD]);
  assert.deepEqual(Object.values(text ?? {}).filter(Boolean), ["Attempt"]);
});
