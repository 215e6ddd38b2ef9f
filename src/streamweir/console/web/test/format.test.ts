// Amounts as people read them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { alignedDollars, decimalsOf, dollars, exactDollars, moment, NONE, preciseMoment, shortDay, zone, zoneOf } from "../src/lib/format";

test("an exact amount keeps every digit, and has two of cents at least", () => {
  const amounts = ["0", "1", "12.5", "-0.000000001", "1234567.125", null] as const;
  assert.deepEqual(amounts.map(exactDollars), ["$0", "$1.00", "$12.50", "−$0.000000001", "$1,234,567.125", NONE]);
});

test("an amount is cents where there are dollars, three figures where there are none, and whole where there are many", () => {
  const amounts = ["0", "0.00000405", "0.1", "0.9996", "2.819", "-7", "9999.99", "12345.67", "1250000", null] as const;
  const rounded = ["$0", "$0.00000405", "$0.10", "$1.00", "$2.82", "−$7.00", "$9,999.99", "$12,346", "$1,250,000", NONE];
  assert.deepEqual(amounts.map(dollars), rounded);
});

test("amounts of one column have the same decimals, and lose no digit", () => {
  const amounts = ["-0.00125", "0", "3", "1234.5", "-0.000002", null] as const;
  const decimals = decimalsOf(amounts);
  assert.equal(decimals, 6);
  assert.deepEqual(amounts.map((usd) => alignedDollars(usd, decimals)), ["−$0.001250", "$0.000000", "$3.000000", "$1,234.500000", "−$0.000002", NONE]);
  assert.deepEqual(["0", "3", "-3", undefined].map((usd) => alignedDollars(usd, decimalsOf([]), true)), ["$0.00", "+$3.00", "−$3.00", NONE]);
});

test("a moment says in which zone it is", () => {
  assert.deepEqual([0, 60, 330, -210, 765].map(zoneOf), ["UTC", "UTC+1", "UTC+5:30", "UTC−3:30", "UTC+12:45"]);
  const at = new Date(2026, 10, 9, 5, 4, 3, 21).getTime();
  assert.equal(moment(at), `2026-11-09 05:04:03 ${zone(at)}`);
  assert.equal(preciseMoment(at), `2026-11-09 05:04:03.021 ${zone(at)}`);
  assert.equal(shortDay(at), "9 Nov");
});
