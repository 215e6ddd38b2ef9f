// Where the steps of a request are drawn.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AttemptView } from "../src/lib/types";
import { awaySum, gapText, layOut, ticksOf, told } from "../src/lib/waterfall";

const attempt = (more: Partial<AttemptView> = {}): AttemptView => ({ target: "sim/one", error: null, start_s: 0, duration_s: 1, resends: 0, ...more });
const NOTHING = { admitted_ms: null, settled_ms: null, attempts: [], ttft_ms: null, duration_ms: 0, strip: null, gap_max_ms: null, reader_gaps: [], reader_gap_count: null };

test("a request that was refused at once", () => {
  const way = layOut({ ...NOTHING, duration_ms: 2 });
  assert.deepEqual(way.steps.map((step) => [step.name, step.from, step.width, step.isPoint]), [["Finish", 1, 0, true]]);
  assert.equal(layOut(NOTHING).span_ms, 1, "nothing is divided by nothing");
});

test("admission, attempts, first token, answer, finish and settlement, in this order", () => {
  const way = layOut({
    ...NOTHING,
    admitted_ms: 100,
    attempts: [attempt({ start_s: 0.1, duration_s: 0.4, error: "upstream_timeout", resends: 1 }), attempt({ target: "sim/two", start_s: 0.5, duration_s: 1.3 })],
    ttft_ms: 1000,
    duration_ms: 1800,
    settled_ms: 2000,
  });
  assert.equal(way.span_ms, 2000);
  assert.deepEqual(
    way.steps.map((step) => [step.name, step.from, Number(step.width.toFixed(3))]),
    [
      ["Admission", 0, 0.05],
      ["Attempt 1", 0.05, 0.2],
      ["Attempt 2", 0.25, 0.65],
      ["First token", 0.5, 0],
      ["Answer", 0.5, 0.4],
      ["Finish", 0.9, 0],
      ["Settlement", 0.9, 0.1],
    ],
  );
  assert.deepEqual(way.steps.map(told).slice(1, 4), ["from 100 ms to 500 ms, failed: upstream_timeout", "from 500 ms to 1.80 s", "at 1.00 s"]);
  assert.equal(way.steps[1]?.note, "sim/one · sent again once");
});

test("the times in which nobody read a stream are one row", () => {
  const reader_gaps = [{ from_ms: 500, until_ms: 700 }, { from_ms: 900, until_ms: 1000 }];
  const way = layOut({ ...NOTHING, ttft_ms: 200, duration_ms: 1000, reader_gaps, reader_gap_count: 2 });
  const [away] = way.steps.filter((step) => step.kind === "away");
  assert.ok(away);
  assert.deepEqual(away.parts.map((part) => [part.from.toFixed(1), part.width.toFixed(1)]), [["0.5", "0.2"], ["0.9", "0.1"]]);
  assert.deepEqual([away.note, awaySum(away)], ["2 times, until somebody came back", 300]);
  assert.equal(told(away), "from 500 ms to 700 ms, from 900 ms to 1.00 s");
  const left = layOut({ ...NOTHING, ttft_ms: 200, duration_ms: 1000, reader_gaps: [{ from_ms: 600, until_ms: null }], reader_gap_count: 40 });
  const [open] = left.steps.filter((step) => step.kind === "away");
  assert.ok(open);
  assert.deepEqual([open.note, told(open), awaySum(open)], ["40 times, and nobody came back", "from 600 ms to the end", 400]);
});

test("attempts of rows that do not say when they began follow one another", () => {
  const { start_s: _, ...old } = attempt({ duration_s: 0.25 });
  const way = layOut({ ...NOTHING, admitted_ms: 500, attempts: [old, old], duration_ms: 1000 });
  assert.deepEqual(way.steps.filter((step) => step.kind === "attempt").map((step) => [step.from, step.width]), [
    [0.5, 0.25],
    [0.75, 0.25],
  ]);
});

test("the pieces as strengths, and the longest gap between them", () => {
  const way = layOut({ ...NOTHING, ttft_ms: 200, duration_ms: 1000, gap_max_ms: 250, strip: { start_ms: 200, slot_ms: 100, counts: [4, 0, 1, 0, 0, 2, 0, 1] } });
  assert.deepEqual(way.slots.map((slot) => slot.count), [4, 0, 1, 0, 0, 2, 0, 1]);
  assert.deepEqual(way.slots.map((slot) => slot.strength > 0), [true, false, true, false, false, true, false, true]);
  assert.equal(way.slots[0]?.strength, 1);
  assert.ok((way.slots[2]?.strength ?? 0) < (way.slots[5]?.strength ?? 0));
  assert.deepEqual([way.gap?.length_ms, way.gap?.isExact], [250, true]);
  assert.deepEqual([way.gap?.from.toFixed(2), way.gap?.width.toFixed(2)], ["0.50", "0.20"]);
});

test("a gap that no empty slot shows is not marked", () => {
  const strip = { start_ms: 0, slot_ms: 100, counts: [1, 2, 1] };
  assert.equal(layOut({ ...NOTHING, ttft_ms: 0, duration_ms: 300, gap_max_ms: 90, strip }).gap, null);
  assert.equal(layOut({ ...NOTHING, ttft_ms: 0, duration_ms: 300, strip: { ...strip, counts: [0, 2, 0] } }).gap, null);
  assert.equal(layOut({ ...NOTHING, duration_ms: 300, gap_max_ms: 90 }).gap, null);
});

test("a gap that the provider had no part in is measured by the slots", () => {
  const gap = layOut({ ...NOTHING, ttft_ms: 0, duration_ms: 5000, gap_max_ms: 74, strip: { start_ms: 0, slot_ms: 1000, counts: [9, 0, 0, 0, 1] } }).gap;
  assert.deepEqual([gap?.length_ms, gap?.isExact], [4000, false]);
  assert.equal(gap && gapText(gap), "about 4.00 s");
});

test("a last slot that reaches beyond the end makes nothing longer and lies within", () => {
  const way = layOut({ ...NOTHING, ttft_ms: 0, duration_ms: 250, strip: { start_ms: 0, slot_ms: 100, counts: [1, 1, 1] } });
  assert.equal(way.span_ms, 250);
  for (const slot of way.slots) assert.ok(slot.from + slot.width <= 1.0000001);
  const settled = layOut({ ...NOTHING, ttft_ms: 48, duration_ms: 51, settled_ms: 60, strip: { start_ms: 48, slot_ms: 10, counts: [6] } });
  assert.equal(settled.slots[0]?.to_ms, 58);
  assert.equal(((settled.slots[0]?.from ?? 0) + (settled.slots[0]?.width ?? 0)).toFixed(3), (51 / 60).toFixed(3));
});

test("an axis has a few round moments, whatever the span", () => {
  for (const span of [1, 2, 7, 99, 100, 1234, 9999, 60_000, 61_000, 299_000, 600_000, 3_600_000, 86_400_000, 900_000_000]) {
    const ticks = ticksOf(span);
    assert.equal(ticks[0]?.name, "0");
    assert.ok(ticks.length >= 2 && ticks.length <= 7, `${span}: ${ticks.map((tick) => tick.name).join(" ")}`);
    assert.ok(ticks.every((tick) => tick.at >= 0 && tick.at <= 1));
    assert.equal(new Set(ticks.map((tick) => tick.name)).size, ticks.length);
  }
  assert.deepEqual(ticksOf(1000).map((tick) => tick.name), ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1 s"]);
  assert.deepEqual(ticksOf(200).map((tick) => tick.name), ["0", "50 ms", "100 ms", "150 ms", "200 ms"]);
  assert.deepEqual(ticksOf(300_000).map((tick) => tick.name), ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]);
});
