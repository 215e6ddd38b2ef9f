// The Messages API: what its events amount to, when a stream is whole, and the body that the playground sends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOf, fold, NOTHING, readFault, readWhole, type Answer } from "../src/lib/chat";
import { bodyOf, continued, EXAMPLE_TOOLS, NEW_DRAFT, type Draft } from "../src/lib/draft";

const folded = (...events: object[]): Answer => events.reduce<Answer>((answer, each) => fold(answer, { data: JSON.stringify(each) }), NOTHING);
const draft = (more: Partial<Draft> = {}): Draft => ({ ...NEW_DRAFT, prompt: "Hi", ...more });

const usage = { input_tokens: 9, cache_creation_input_tokens: 20, cache_read_input_tokens: 100, output_tokens: 1 };
const START = { type: "message_start", message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage } };
const open = (index: number, content_block: object) => ({ type: "content_block_start", index, content_block });
const delta = (index: number, piece: object) => ({ type: "content_block_delta", index, delta: piece });
const close = (index: number) => ({ type: "content_block_stop", index });
const finish = (stop_reason: string, more: object = { output_tokens: 7 }) => ({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: more });
const STOP = { type: "message_stop" };
const THINKING = [
  open(0, { type: "thinking", thinking: "", signature: "" }),
  delta(0, { type: "thinking_delta", thinking: "They want " }),
  delta(0, { type: "thinking_delta", thinking: "weather." }),
  delta(0, { type: "signature_delta", signature: "c2ln" }),
  close(0),
];
const CALLS = [
  open(1, { type: "tool_use", id: "toolu_1", name: "f", input: {} }),
  delta(1, { type: "input_json_delta", partial_json: '{"a":' }),
  open(2, { type: "tool_use", id: "toolu_2", name: "g", input: {} }),
  delta(1, { type: "input_json_delta", partial_json: "1}" }),
  close(1),
  close(2),
];

test("text: joined, counted, whole with message_stop alone", () => {
  const text = [START, { type: "ping" }, open(0, { type: "text", text: "" }), delta(0, { type: "text_delta", text: "Hel" }), delta(0, { type: "text_delta", text: "lo" }), close(0)];
  const answer = folded(...text, finish("end_turn"), STOP);
  assert.deepEqual([answer.id, answer.model, answer.choices[0]?.text, answer.choices[0]?.finish], ["msg_1", "m", "Hello", "end_turn"]);
  assert.deepEqual(answer.use, { prompt: 129, completion: 7, cached: 100, reasoning: null, written: 20 });
  assert.equal(answer.pieces, 2);
  assert.equal(answer.unread, 0);
  assert.equal(endingOf(answer), "whole");
  assert.equal(endingOf(folded(...text, finish("end_turn"))), "cut");
  assert.equal(endingOf(folded(...text)), "cut");
  assert.equal(folded(...text).use, null, "the start only estimates");
  assert.equal(endingOf(folded(...text, { type: "error", error: { type: "api_error", message: "gone" } })), "failed");
});

test("thinking and calls, each of its own block, also where two are open", () => {
  const [choice] = folded(START, ...THINKING, ...CALLS, finish("tool_use"), STOP).choices;
  assert.equal(choice?.reasoning, "They want weather.");
  assert.deepEqual(choice?.thoughts, [{ block: 0, text: "They want weather.", signature: "c2ln" }]);
  assert.deepEqual(
    choice?.calls.map((call) => [call.id, call.name, call.arguments]),
    [
      ["toolu_1", "f", '{"a":1}'],
      ["toolu_2", "g", ""],
    ],
  );
});

test("a later usage replaces what it names", () => {
  const answer = folded(START, open(0, { type: "text", text: "" }), finish("end_turn", { input_tokens: 3, output_tokens: 8, output_tokens_details: { thinking_tokens: 5 } }));
  assert.deepEqual(answer.use, { prompt: 123, completion: 8, cached: 100, reasoning: 5, written: 20 });
});

test("what is not known is passed over", () => {
  const answer = folded(START, open(0, { type: "server_tool_use", id: "x" }), delta(0, { type: "new_delta" }), { type: "message_delta", delta: {} });
  assert.deepEqual([answer.choices[0]?.text, answer.choices[0]?.finish, answer.unread], ["", null, 0]);
});

test("a whole message, and an error", () => {
  const content = [
    { type: "thinking", thinking: "Hm.", signature: "s" },
    { type: "redacted_thinking", data: "x" },
    { type: "text", text: "Yes." },
    { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
  ];
  const answer = readWhole(JSON.stringify({ id: "msg_1", type: "message", model: "m", content, stop_reason: "tool_use", usage }));
  const [choice] = answer.choices;
  assert.deepEqual([choice?.reasoning, choice?.text, choice?.calls[0]?.arguments, choice?.finish], ["Hm.", "Yes.", '{"a":1}', "tool_use"]);
  assert.equal(choice?.thoughts?.length, 2);
  assert.equal(answer.use?.completion, 1);
  assert.equal(endingOf(answer), "whole");
  assert.deepEqual(readFault('{"type":"error","error":{"type":"not_found_error","message":"model: x"},"request_id":"r"}'), {
    message: "model: x",
    type: "not_found_error",
    code: null,
  });
});

test("the body: what the API demands, and nothing of the other", () => {
  assert.deepEqual(bodyOf(draft(), "m", "messages"), {
    body: { model: "m", max_tokens: 4096, messages: [{ role: "user", content: "Hi" }], stream: true },
    problems: {},
  });
  const { body, problems } = bodyOf(
    draft({ system: "Be brief.", temperature: "0", maxTokens: "64", topP: "0.9", seed: "x", stop: "a\n\n b", effort: "minimal", isStreamed: false, tools: EXAMPLE_TOOLS }),
    "m",
    "messages",
  );
  assert.deepEqual(problems, {});
  assert.deepEqual([body.system, body.temperature, body.max_tokens, body.top_p, body.stop_sequences], ["Be brief.", 0, 64, 0.9, ["a", " b"]]);
  assert.deepEqual([body.thinking, body.output_config, body.stream], [{ type: "adaptive" }, { effort: "low" }, false]);
  assert.deepEqual(Object.keys((body.tools as object[])[0] ?? {}), ["name", "description", "input_schema"]);
  for (const member of ["seed", "stop", "reasoning_effort", "stream_options"]) assert.equal(member in body, false, member);
  assert.deepEqual(bodyOf(draft({ effort: "none" }), "m", "messages").body.thinking, { type: "disabled" });
});

test("tools are taken in either format", () => {
  const tool = { name: "f", description: "d", input_schema: { type: "object" } };
  const tools = JSON.stringify([tool, { type: "web_search_20250305", name: "web_search" }]);
  assert.deepEqual(bodyOf(draft({ tools }), "m", "messages").body.tools, JSON.parse(tools));
  assert.deepEqual((bodyOf(draft({ tools }), "m").body.tools as unknown[])[0], {
    type: "function",
    function: { name: "f", description: "d", parameters: { type: "object" } },
  });
});

test("an answer goes on with its thinking, the results stand together, and the next prompt with them", () => {
  const [choice] = folded(START, ...THINKING, ...CALLS, finish("tool_use"), STOP).choices;
  assert.ok(choice);
  const turns = continued(draft(), choice).turns.map((turn) => (turn.callId ? { ...turn, text: `result of ${turn.callId}` } : turn));
  assert.deepEqual(bodyOf(draft({ turns, prompt: "And?" }), "m", "messages").body.messages, [
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "They want weather.", signature: "c2ln" },
        { type: "tool_use", id: "toolu_1", name: "f", input: { a: 1 } },
        { type: "tool_use", id: "toolu_2", name: "g", input: {} },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "toolu_1", content: "result of toolu_1" },
        { type: "tool_result", tool_use_id: "toolu_2", content: "result of toolu_2" },
        { type: "text", text: "And?" },
      ],
    },
  ]);
  const chat = bodyOf(draft({ turns, prompt: "And?" }), "m").body.messages as { role: string }[];
  assert.deepEqual(
    chat.map((message) => message.role),
    ["user", "assistant", "tool", "tool", "user"],
  );
});
