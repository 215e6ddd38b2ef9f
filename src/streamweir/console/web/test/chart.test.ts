// What an axis says, and where a tooltip stands.
import assert from "node:assert/strict";
import { test } from "node:test";
import { timeLabel, TIP_WIDTH, tipLeft, total } from "../src/lib/chart";

test("a midnight is labelled as the day that begins", () => {
  const at = (hour: number, minute = 0) => new Date(2026, 10, 19, hour, minute).getTime();
  assert.equal(timeLabel(at(0), 3600), "19 Nov");
  assert.equal(timeLabel(at(23, 30), 900), "23:30");
  assert.equal(timeLabel(at(0, 1), 60), "00:01");
  assert.equal(timeLabel(at(1), 86_400), "19 Nov", "where days are told apart all are days");
});

test("a tooltip stands beside the pointer, and within the chart", () => {
  assert.equal(tipLeft(100, 600), 114);
  assert.equal(tipLeft(500, 600), 500 - 14 - TIP_WIDTH);
  assert.equal(tipLeft(170, 334), 334 - TIP_WIDTH, "there is room on neither side of a phone");
  assert.equal(tipLeft(10, 100), 0);
});

test("what is stacked has a sum at each moment; a gap is nothing", () => {
  assert.equal(total([{ values: [1, null] }, { values: [2, 5] }], 0), 3);
  assert.equal(total([{ values: [1, null] }, { values: [2, 5] }], 1), 5);
});
