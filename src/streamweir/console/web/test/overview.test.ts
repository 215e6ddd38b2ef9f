// The sums of the overview: filled steps, groups as lines, ranges of whole steps, changes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changeOf, colourOf, column, errorRate, groupColumns, groupLabel, marginShare, pointsOf, refusedColumn, shownGroups, snapped, spanName, spanText, stepsOf, sum } from "../src/lib/overview";
import type { UsageView as Usage, NamedGroup } from "../src/lib/types";

const MINUTE = 60_000;

function usage(requests: number, more: Partial<Usage> = {}): Usage {
  return {
    requests,
    errors: 0,
    prompt_tokens: 10 * requests,
    cached_tokens: 0,
    cache_read_share: 0,
    completion_tokens: requests,
    reasoning_tokens: 0,
    cost_usd: String(requests / 100),
    uncosted: 0,
    price_usd: String(requests / 100),
    unpriced: 0,
    ttft_p50_ms: 200,
    ttft_p95_ms: 900,
    ...more,
  };
}

function group(name: string | null, label: string | null = null): NamedGroup {
  return { group: name, name: label, usage: usage(1) };
}

const view = {
  since_ms: 10 * MINUTE,
  until_ms: 13 * MINUTE + 5,
  step_ms: MINUTE,
  series: [{ at_ms: 11 * MINUTE, usage: usage(7) }],
};

test("steps without requests are there", () => {
  const steps = stepsOf(view);
  assert.deepEqual(steps.starts, [10, 11, 12, 13].map((minute) => minute * MINUTE));
  assert.deepEqual(steps.middles[0], 10.5 * MINUTE);
  assert.deepEqual(
    column(steps.points, (each) => each.requests, 0),
    [0, 7, 0, 0],
  );
  assert.deepEqual(
    column(steps.points, (each) => each.ttft_p50_ms, null),
    [null, 200, null, null],
  );
});

test("a period that begins within a step shows that step, and one without requests is all zeros", () => {
  assert.deepEqual(stepsOf({ ...view, since_ms: 10.5 * MINUTE, series: [] }).starts[0], 10 * MINUTE);
  assert.deepEqual(stepsOf({ ...view, series: [] }).points, [null, null, null, null]);
});

test("steps are counted from where the server begins them", () => {
  const shifted = stepsOf({ ...view, series: [{ at_ms: 11 * MINUTE + 7, usage: usage(3) }] });
  assert.deepEqual(shifted.starts[0], 9 * MINUTE + 7);
  assert.equal(sum(column(shifted.points, (each) => each.requests, 0), shifted.starts, null), 3);
});

test("refused requests stand in the steps in which they were refused", () => {
  const refused = { total: 3, before: 0, series: [{ at_ms: 12 * MINUTE, requests: 3 }] };
  assert.deepEqual(refusedColumn({ refused }, stepsOf(view).starts), [0, 0, 3, 0]);
  assert.deepEqual(refusedColumn({ refused: null }, [1, 2]), [0, 0]);
});

test("the first groups have a line of their own, the others share one", () => {
  const groups = [..."abcdefghi"].map((name) => group(name));
  const shown = shownGroups([...groups, group(null)]);
  assert.deepEqual(
    shown.map((each) => each.label),
    ["a", "b", "c", "d", "e", "f", "g", "All others"],
  );
  assert.equal(colourOf(shown, "b"), "c2");
  assert.equal(colourOf(shown, "h"), "c8");
  assert.equal(colourOf(shown, null), "c8");
  assert.deepEqual(shownGroups([group("a")]).length, 1);
  const series = ["a", "h", "i", null].map((name) => ({ at_ms: 5, group: name, usage: usage(2) }));
  const columns = groupColumns(series, [4, 5], shown, (each) => each.requests);
  assert.deepEqual(columns[0], [0, 2]);
  assert.deepEqual(columns[7], [0, 6]);
});

test("a group is known by the name of its key, and what has no name is said to have none", () => {
  assert.equal(groupLabel(group("key_1", "ci")), "ci");
  assert.equal(groupLabel(group("key_1")), "key_1");
  assert.equal(groupLabel(group("")), "(none)");
  assert.equal(groupLabel(group(null)), "All others");
});

test("a range is made of whole steps; all or none of them is no range", () => {
  const steps = stepsOf(view);
  assert.deepEqual(snapped({ since: 10.9 * MINUTE, until: 11.1 * MINUTE }, steps, MINUTE), { since: 10 * MINUTE, until: 12 * MINUTE });
  assert.equal(snapped({ since: 0, until: 99 * MINUTE }, steps, MINUTE), null);
  assert.equal(snapped({ since: 50 * MINUTE, until: 60 * MINUTE }, steps, MINUTE), null);
  assert.equal(sum([1, 2, 4, 8], steps.starts, { since: 11 * MINUTE, until: 13 * MINUTE }), 6);
});

test("changes are signed, and nothing is said of nothing", () => {
  assert.deepEqual(changeOf(150, 100), { text: "+50 %", isUp: true });
  assert.deepEqual(changeOf(98.9, 100), { text: "−1.1 %", isUp: false });
  assert.deepEqual(changeOf(100, 100), { text: "±0", isUp: null });
  assert.deepEqual(changeOf(100.01, 100), { text: "±0", isUp: null });
  assert.deepEqual(changeOf(109.96, 100), { text: "+10 %", isUp: true });
  assert.deepEqual(changeOf(2500, 100), { text: "× 25", isUp: true });
  assert.deepEqual(changeOf(0, 100), { text: "−100 %", isUp: false });
  assert.deepEqual(changeOf(5, 0), { text: "none", isUp: true, isFirst: true });
  assert.equal(changeOf(0, 0), null);
  assert.equal(changeOf(null, 3), null);
  assert.deepEqual(pointsOf(0.031, 0.012), { text: "+1.9 pt", isUp: true });
  assert.deepEqual(pointsOf(0.01, 0.0101), { text: "±0", isUp: null });
  assert.equal(pointsOf(errorRate(usage(0)), 0.1), null);
});

test("spans have a name", () => {
  assert.equal(spanName(MINUTE), "1 minute");
  assert.equal(spanName(15 * MINUTE), "15 minutes");
  assert.equal(spanName(60 * MINUTE), "1 hour");
  assert.equal(spanName(135 * MINUTE), "2 h 15 min");
  assert.equal(spanName(2880 * MINUTE), "2 days");
});

test("a span is told with as few dates as it needs", () => {
  const at = (date: number, hour: number, minute = 0) => new Date(2026, 10, date, hour, minute).getTime();
  const now = at(15, 13);
  assert.equal(spanText(at(15, 12), at(15, 12, 15), now), "12:00 to 12:15");
  assert.equal(spanText(at(15, 23), at(16, 0), now), "23:00 to 00:00");
  assert.equal(spanText(at(14, 12), at(14, 12, 15), now), "14 Nov 12:00 to 12:15");
  assert.equal(spanText(at(14, 13), at(15, 13), now), "14 Nov 13:00 to 15 Nov 13:00");
  assert.equal(spanText(at(14, 0), at(15, 0), now), "2026-11-14");
  assert.equal(spanText(at(1, 0), at(16, 0), now), "2026-11-01 to 11-15");
});

test("the margin's share of the price, which may be negative", () => {
  const share = (price: string, margin: string) => marginShare(usage(1, { price_usd: price, margin_usd: margin }));
  assert.deepEqual([share("10", "2.5"), share("10", "0.51"), share("10", "0"), share("2", "-1"), share("0", "-1")], ["25 %", "5.1 %", "0 %", "−50 %", "–"]);
  assert.equal(marginShare(usage(1)), "–", "it is not shown to everyone");
  const known = { price_usd: "100", cost_usd: "6", margin_usd: "2" };
  assert.equal(marginShare(usage(2, { ...known, uncosted: 1 })), "25 %", "of the requests whose cost is known");
  assert.equal(marginShare(usage(1, { price_usd: "100", cost_usd: "0", margin_usd: "0", uncosted: 1 })), "–");
});
