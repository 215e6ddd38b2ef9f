// The filters of the log: from the address to the question, and back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { asked, chipsOf, isWholeRequestId, localTime, partOf, readCursors, readFilters, readId, readLocalTime, withFilters, without, writeCursors } from "../src/lib/filters";

const read = (query: string) => readFilters(new URLSearchParams(query));

test("what stands in the address is asked, and nothing else", () => {
  const filters = read("model=%3Cb%3E&key=k1&failed=true&stream=false&status_class=5&min_cost_usd=0.5&since_ms=1000&foo=bar&cursors=a");
  assert.deepEqual(filters, { model: "<b>", key: "k1", failed: "true", stream: "false", status_class: "5", min_cost_usd: "0.5", since_ms: "1000" });
  const question = Object.entries(asked(filters, 5)).filter(([, value]) => value !== undefined);
  assert.deepEqual(Object.fromEntries(question), filters);
});

test("a name is asked for as it stands, blanks at its ends included", () => {
  assert.deepEqual(asked(read("model=up/m%20&error=%20e"), 5), asked({ model: "up/m ", error: " e" }, 5));
  assert.equal(read("model=up/m%20").model, "up/m ");
});

test("what the server would refuse is left out", () => {
  assert.deepEqual(read("failed=maybe&stream=1&status_class=42&min_cost_usd=-1&max_cost_usd=1e9&min_price_usd=x&max_price_usd=-0&since_ms=x&last=year&model=%20&id="), {});
  assert.deepEqual(read("last=toString"), {});
});

test("a time from now is counted from the moment of asking, and another time ends it", () => {
  const filters = read("last=hour");
  assert.equal(asked(filters, 10_000_000).since_ms, 10_000_000 - 3_600_000);
  assert.equal(withFilters(filters, { since_ms: "5" }).last, null);
  assert.deepEqual(withFilters(read("since_ms=1&until_ms=2"), { last: "day" }), { since_ms: null, until_ms: null, last: "day" });
  assert.deepEqual(read("last=hour&since_ms=5"), { since_ms: "5" });
});

test("a filter is taken away by null", () => {
  assert.deepEqual(withFilters(read("model=m&key=k"), { model: null }), { model: null, key: "k" });
});

test("a chip for each filter, in words", () => {
  const texts = chipsOf(read("last=day&key=k1&verdict=client_gone&failed=false&status_class=4&max_cost_usd=2&min_price_usd=0.5&model=m"), () => "ci").map((chip) => chip.text);
  assert.deepEqual(texts, ["Last day", "key: ci", "model: m", "result: client gone", "status: 4xx", "not failed", "price at least $0.50", "cost at most $2.00"]);
  assert.deepEqual(chipsOf({}), []);
});

test("what is typed is a known value, a pattern, or a part", () => {
  const known = new Set(["gpt-4o", "gpt-4o-mini"]);
  assert.deepEqual([" gpt-4o ", "gpt", "g*o", "  "].map((typed) => partOf(typed, known)), ["gpt-4o", "*gpt*", "g*o", ""]);
});

test("a pattern is told in words", () => {
  const texts = chipsOf(read("model=*gpt*&key=*c*i*&error=up*&end_user=*a*&session=s&tag=a*b")).map((chip) => chip.text);
  assert.deepEqual(texts, ["key like *c*i*", "model contains gpt", "error like up*", "end user contains a", "session: s", "tag: a*b"]);
});

test("each filter is left out once, and a time as one", () => {
  const left = without(read("since_ms=1&until_ms=2&model=m&key=k"));
  assert.deepEqual(
    left.map(({ names, rest }) => [names.join(), Object.keys(rest).join()]),
    [
      ["since_ms,until_ms", "key,model"],
      ["key", "since_ms,until_ms,model"],
      ["model", "since_ms,until_ms,key"],
    ],
  );
  assert.deepEqual(without({}), []);
});

test("cursors go along in the address, not without end", () => {
  assert.deepEqual(readCursors(new URLSearchParams("cursors=MTIz,b-_")), ["MTIz", "b-_"]);
  assert.deepEqual(readCursors(new URLSearchParams("cursors=a%20b,,c")), ["c"]);
  assert.equal(writeCursors([]), null);
  assert.equal(writeCursors(Array.from({ length: 100 }, (_, index) => `c${index}`))?.split(",").length, 40);
});

test("an id as it was copied", () => {
  for (const copied of ["req_1", ' "req_1", ', "'req_1'", "`req_1`;", "(req_1)", "…req_1"]) assert.equal(readId(copied), "req_1");
  assert.equal(readId("stream:chat:1-2"), "stream:chat:1-2");
  assert.ok(isWholeRequestId(`req_${"0a".repeat(14)}`));
  assert.ok(!isWholeRequestId(`req_${"0a".repeat(6)}`) && !isWholeRequestId("chatcmpl-1"));
});

test("a moment into its box and back", () => {
  const ms = new Date(2026, 10, 15, 9, 5, 7).getTime();
  assert.equal(localTime(ms), "2026-11-15T09:05:07");
  assert.equal(readLocalTime(localTime(ms)), String(ms));
  assert.equal(readLocalTime(""), null);
  assert.equal(readLocalTime("never"), null);
});
