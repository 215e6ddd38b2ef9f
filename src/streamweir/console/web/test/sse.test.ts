// However a stream is cut, its frames are the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFrame, SseSplitter, type SseFrame } from "../src/lib/sse";

const LINES = [
  ": a comment",
  "",
  'data: {"text":"häßlich – 流 🌊"}',
  "",
  "event: live",
  "data: one",
  "data:two",
  "data",
  "id: 7",
  "",
  "",
  "data: [DONE]",
  "",
];

function split(pieces: Uint8Array[]): { frames: SseFrame[]; rest: string } {
  const splitter = new SseSplitter();
  const frames = pieces.flatMap((piece) => splitter.push(piece));
  const last = splitter.end();
  return { frames: [...frames, ...last.frames], rest: last.rest };
}

for (const [name, end] of [["LF", "\n"], ["CRLF", "\r\n"], ["CR", "\r"]] as const) {
  const bytes = new TextEncoder().encode(LINES.map((line) => line + end).join(""));
  const whole = split([bytes]);

  test(`${name}: frames say what the lines said`, () => {
    const data = whole.frames.map((frame) => frame.data).filter((each) => each !== null);
    assert.deepEqual(data, ['{"text":"häßlich – 流 🌊"}', "one\ntwo\n", "[DONE]"]);
    assert.equal(whole.frames.find((frame) => frame.data?.startsWith("one"))?.event, "live");
    assert.equal(whole.rest, "");
    assert.equal(whole.frames.map((frame) => frame.raw).join(""), new TextDecoder().decode(bytes));
  });

  test(`${name}: every cut in two, and byte by byte`, () => {
    for (let at = 0; at <= bytes.length; at++) {
      assert.deepEqual(split([bytes.subarray(0, at), bytes.subarray(at)]), whole, `cut at ${at}`);
    }
    assert.deepEqual(split(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))), whole);
  });

  test(`${name}: what is no whole frame is the rest`, () => {
    const cut = split([new TextEncoder().encode(`data: a${end}${end}data: b${end}`)]);
    assert.deepEqual(cut.frames.map((frame) => frame.data), ["a"]);
    assert.equal(cut.rest, `data: b${end}`);
  });
}

test("a frame comes out as soon as its blank line is there", () => {
  const splitter = new SseSplitter();
  assert.equal(splitter.push(new TextEncoder().encode("data: a\n\ndata: b")).length, 1);
  assert.equal(splitter.push(new TextEncoder().encode("\n\n")).length, 1);
});

test("bytes that are no UTF-8 do not end it", () => {
  const { frames } = split([new Uint8Array([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a])]);
  assert.equal(frames[0]?.data, "�");
});

test("a frame of comments alone has no data", () => {
  assert.deepEqual(readFrame(": ping\n\n"), { raw: ": ping\n\n", event: null, data: null });
  assert.equal(readFrame("data\n\n").data, "");
});
