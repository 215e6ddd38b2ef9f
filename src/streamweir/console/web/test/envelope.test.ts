// What is the same in each frame is folded; what the model has sent never is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Folder } from "../src/lib/envelope";
import { readFrame } from "../src/lib/sse";

function folded(...frames: string[]): (string | null)[] {
  const folder = new Folder();
  return frames.map((raw) => folder.fold(readFrame(raw)));
}

const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, logprobs: null, finish_reason: null }], ...more })}\n\n`;

const TABLE: [string, string[], (string | null)[]][] = [
  ["the first frame is shown whole", [chunk({ role: "assistant" })], [null]],
  [
    "a token that is there twice is shown twice",
    [chunk({ content: "a" }), chunk({ content: "a" })],
    [null, 'data: {…,"choices":[{…,"delta":{"content":"a"},…}]}'],
  ],
  [
    "what changed is shown",
    [chunk({ content: "a" }), chunk({ content: "b" }, { model: "n" })],
    [null, 'data: {…,"model":"n","choices":[{…,"delta":{"content":"b"},…}]}'],
  ],
  [
    "usage at the end",
    [chunk({ content: "a" }), chunk({}, { choices: [], usage: { prompt_tokens: 1 } })],
    [null, 'data: {…,"choices":[],"usage":{"prompt_tokens":1}}'],
  ],
  [
    "events of the Messages API are compared with their own kind",
    [
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n',
      'event: ping\ndata: {"type":"ping"}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}\n\n',
    ],
    [null, null, 'event: content_block_delta\ndata: {…,"delta":{"type":"text_delta","text":"b"}}'],
  ],
  [
    "events of the Responses API",
    [1, 2].map((n) => `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"delta":"a","logprobs":[],"sequence_number":${n}}\n\n`),
    [null, 'event: response.output_text.delta\ndata: {…,"delta":"a",…,"sequence_number":2}'],
  ],
  ["an error is shown whole", ['data: {"error":{"message":"No."}}\n\n', 'data: {"error":{"message":"No."}}\n\n'], [null, null]],
  ["no JSON, comments and the end", ["data: [DONE]\n\n", ": keep-alive\n\n", "data: {\n\n"], [null, null, null]],
  ["data of several lines", ['data: {"id":1,\ndata: "delta":2}\n\n', 'data: {"id":1,\ndata: "delta":2}\nid: 7\n\n'], [null, 'data: {…,"delta":2}\nid: 7']],
  ["names of every object", ['data: {"__proto__":1,"a":[1,2]}\n\n', 'data: {"__proto__":1,"a":[1,2,3]}\n\n'], [null, 'data: {…,"a":[1,2,3]}']],
];

for (const [name, frames, expected] of TABLE) {
  test(name, () => assert.deepEqual(folded(...frames), expected));
}
