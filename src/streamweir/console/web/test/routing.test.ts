// The order of a model's targets and its fallbacks, in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ownerOf, routingOf } from "../src/lib/routing";

const PLAIN = { strategy: "least_busy" as const, targets: [{}], fallbacks: [], context_fallbacks: [], content_filter_fallbacks: [] };

test("a model with one target and no fallbacks needs no words", () => {
  assert.deepEqual(routingOf(PLAIN), []);
});

test("the strategy is named where there is something to order, and every list that has names", () => {
  assert.deepEqual(routingOf({ ...PLAIN, targets: [{}, {}], fallbacks: ["spare", "p/m"] }), ["Strategy: least busy", "Fallbacks: spare, p/m"]);
  assert.deepEqual(routingOf({ ...PLAIN, context_fallbacks: ["long"], content_filter_fallbacks: ["other"] }), [
    "If the prompt is too long: long",
    "If the prompt is filtered: other",
  ]);
});

test("whose price a model has", () => {
  assert.deepEqual(ownerOf({ owner: "model", owners: [], source: "config" }), { whose: "its own", more: "configuration" });
  assert.deepEqual(ownerOf({ owner: "group", owners: ["resale"], source: "config" }), { whose: "price group resale", more: "configuration" });
  assert.deepEqual(ownerOf({ owner: "target", owners: ["a/m", "b/m"], source: "list" }), { whose: "a/m, b/m", more: "price list" });
});
