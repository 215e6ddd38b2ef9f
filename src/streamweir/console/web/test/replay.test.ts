// Kept frames played again, and side by side.
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerAt, readReplay, sideBySide } from "../src/lib/replay";
import type { FrameView as Frame } from "../src/lib/types";

const frame = (after_ms: number, text: string): Frame => ({ after_ms, text });
const chunk = (content: string, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;
const textAt = (moments: ReturnType<typeof readReplay>, at_ms: number) => answerAt(moments, at_ms).choices[0]?.text ?? "";

test("the text grows as it did", () => {
  const moments = readReplay([frame(100, chunk("a")), frame(250, chunk("b") + chunk("ü")), frame(900, chunk("", "stop") + "data: [DONE]\n\n")], true);
  assert.deepEqual([0, 99, 100, 249, 250, 5000].map((at) => textAt(moments, at)), ["", "", "a", "a", "abü", "abü"]);
  assert.equal(answerAt(moments, 899).isDone, false);
  assert.equal(answerAt(moments, 900).isDone, true);
});

test("an event is there when its last byte is, wherever it was cut", () => {
  const whole = chunk("x");
  for (let cut = 1; cut < whole.length; cut++) {
    const moments = readReplay([frame(1, whole.slice(0, cut)), frame(2, whole.slice(cut))], true);
    assert.deepEqual([textAt(moments, 1), textAt(moments, 2)], ["", "x"], `cut at ${cut}`);
  }
});

test("an answer in one piece, and none", () => {
  const body = JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", content: "whole" }, finish_reason: "stop" }] });
  const moments = readReplay([frame(10, body.slice(0, 20)), frame(12, body.slice(20))], false);
  assert.deepEqual([textAt(moments, 11), textAt(moments, 12)], ["", "whole"]);
  assert.deepEqual(readReplay([], true), []);
  assert.deepEqual(readReplay([], false), []);
});

test("side by side: what went out stands beside what it came from", () => {
  const rows = sideBySide([frame(10, "u1"), frame(20, "u2"), frame(20, "u3")], [frame(5, "c0"), frame(10, "c1"), frame(21, "c2"), frame(21, "c3"), frame(90, "c4")]);
  assert.deepEqual(
    rows.map((row) => [row.upstream.map((each) => each.text).join(), row.caller.map((each) => each.text).join()]),
    [
      ["", "c0"],
      ["u1", "c1"],
      ["u2", ""],
      ["u3", "c2,c3"],
      ["", "c4"],
    ],
  );
  assert.deepEqual(sideBySide([], []), []);
});
