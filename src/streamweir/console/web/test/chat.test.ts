// What each dialect's frames amount to (docs/spec/dialects.md), and when an answer is whole.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOf, fold, NOTHING, readFault, readWhole, type Answer } from "../src/lib/chat";

const folded = (...data: (object | string | null)[]): Answer =>
  data.reduce<Answer>((answer, each) => fold(answer, { data: each === null || typeof each === "string" ? each : JSON.stringify(each) }), NOTHING);

const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  model: "m",
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});
const usage = { prompt_tokens: 12, completion_tokens: 18, total_tokens: 30 };
const last = { id: "chatcmpl-1", object: "chat.completion.chunk", model: "m", choices: [], usage };

test("openai: text, usage null on the way, usage in a chunk of its own, [DONE]", () => {
  const details = { ...usage, prompt_tokens_details: { cached_tokens: 4 }, completion_tokens_details: { reasoning_tokens: 3 } };
  const answer = folded(
    chunk({ role: "assistant", content: "" }, null, { usage: null }),
    chunk({ content: "Packets " }, null, { usage: null }),
    chunk({ content: "in flight" }, null, { usage: null }),
    chunk({}, "stop", { usage: null }),
    { ...last, usage: details },
    "[DONE]",
  );
  assert.equal(answer.choices[0]?.text, "Packets in flight");
  assert.equal(answer.choices[0]?.finish, "stop");
  assert.deepEqual(answer.use, { prompt: 12, completion: 18, cached: 4, reasoning: 3 });
  assert.equal(answer.pieces, 2);
  assert.equal(answer.id, "chatcmpl-1");
  assert.equal(endingOf(answer), "whole");
});

test("openai: refusal and null content", () => {
  const answer = folded(chunk({ role: "assistant", content: null, refusal: null }), chunk({ refusal: "No." }), chunk({}, "stop"), "[DONE]");
  assert.equal(answer.choices[0]?.refusal, "No.");
  assert.equal(answer.choices[0]?.text, "");
});

test("opentoken: usage unasked, reasoning apart from the text", () => {
  const answer = folded(chunk({ role: "assistant" }), chunk({ reasoning_content: "Hm. " }), chunk({ reasoning_content: "Yes." }), chunk({ content: "42" }), chunk({}, "stop"), last, "[DONE]");
  assert.deepEqual([answer.choices[0]?.reasoning, answer.choices[0]?.text], ["Hm. Yes.", "42"]);
  assert.deepEqual(answer.use, { prompt: 12, completion: 18, cached: null, reasoning: null });
  assert.equal(endingOf(answer), "whole");
});

test("aivene: no usage member; an error has message and type alone", () => {
  const answer = folded(chunk({ role: "assistant", content: "" }), chunk({ content: "Half" }), { error: { message: "gone", type: "stream_error" } }, "[DONE]");
  assert.deepEqual(answer.fault, { message: "gone", type: "stream_error", code: null });
  assert.equal(answer.choices[0]?.text, "Half");
  assert.equal(endingOf(answer), "failed");
});

test("bitseek: no role, no [DONE]; usage rides on the finish chunk", () => {
  const bare = { object: "chat.completion" };
  const answer = folded(chunk({ content: "Hi" }, null, bare), chunk({ content: "" }, "stop", { ...bare, usage }));
  assert.equal(answer.choices[0]?.text, "Hi");
  assert.equal(answer.use?.completion, 18);
  assert.equal(endingOf(answer), "whole");
  assert.equal(endingOf(folded(chunk({ content: "Hi" }, null, bare))), "cut");
});

test("bitseek: an error frame is a chunk, and the last", () => {
  const answer = folded({ id: "x", object: "chat.completion", model: "m", choices: [], error: { message: "no", type: "upstream_error", code: "upstream_timeout" } });
  assert.deepEqual(answer.fault, { message: "no", type: "upstream_error", code: "upstream_timeout" });
  assert.equal(endingOf(answer), "failed");
});

test("tool calls grow by index, two at a time", () => {
  const piece = (index: number, made: object, more: object = {}) => chunk({ tool_calls: [{ index, function: made, ...more }] });
  const answer = folded(
    piece(0, { name: "a", arguments: "" }, { id: "call_1", type: "function" }),
    piece(1, { name: "b", arguments: "" }, { id: "call_2", type: "function" }),
    piece(0, { arguments: '{"x"' }),
    piece(1, { arguments: "{}" }),
    piece(0, { arguments: ":1}" }),
    chunk({}, "tool_calls"),
    "[DONE]",
  );
  assert.deepEqual(answer.choices[0]?.calls, [
    { id: "call_1", name: "a", arguments: '{"x":1}' },
    { id: "call_2", name: "b", arguments: "{}" },
  ]);
  assert.equal(answer.pieces, 5);
});

test("an index that no stream has is left out", () => {
  const answer = folded(chunk({ tool_calls: [{ index: 4_000_000_000, function: { name: "x" } }] }), chunk({ tool_calls: [{ index: -1 }] }));
  assert.deepEqual(answer.choices[0]?.calls, []);
});

test("a legacy function call is a call", () => {
  const answer = folded(chunk({ function_call: { name: "f", arguments: "" } }), chunk({ function_call: { arguments: "{}" } }), chunk({}, "function_call"), "[DONE]");
  assert.deepEqual(answer.choices[0]?.calls, [{ id: null, name: "f", arguments: "{}" }]);
});

test("choices interleave", () => {
  const of = (index: number, content: string) => ({ ...last, usage: null, choices: [{ index, delta: { content }, finish_reason: null }] });
  const answer = folded(of(1, "b"), of(0, "a"), of(1, "B"));
  assert.deepEqual(answer.choices.map((choice) => choice.text), ["a", "bB"]);
});

test("cut: without [DONE], without a finish, without anything", () => {
  assert.equal(endingOf(folded(chunk({ content: "a" }))), "cut");
  assert.equal(endingOf(folded(chunk({ content: "a" }), chunk({}, "stop"))), "cut");
  assert.equal(endingOf(folded(chunk({ content: "a" }), "[DONE]")), "cut");
  assert.equal(endingOf(NOTHING), "cut");
});

test("comments are nothing, nonsense is counted", () => {
  assert.equal(folded(null), NOTHING);
  assert.equal(folded("{", "[]", "7").unread, 3);
  const odd = folded({ choices: [null, 7, { index: "x", delta: null }, { delta: { content: 5, tool_calls: [null, {}] } }], usage: 3, error: null });
  assert.equal(odd.fault, null);
  assert.equal(odd.choices[0]?.text, "");
});

test("usage without the core counts does not replace one that has them", () => {
  assert.equal(folded(last, { ...last, usage: { total_tokens: 1 } }).use?.prompt, 12);
});

test("a whole answer, and a whole error", () => {
  const message = { role: "assistant", content: "Hi", reasoning_content: "Hm", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] };
  const answer = readWhole(JSON.stringify({ id: "x", object: "chat.completion", model: "m", choices: [{ index: 0, message, finish_reason: "stop" }], usage }));
  assert.deepEqual([answer.choices[0]?.text, answer.choices[0]?.reasoning, answer.choices[0]?.calls[0]?.name], ["Hi", "Hm", "f"]);
  assert.equal(endingOf(answer), "whole");
  assert.equal(readFault('{"error":{"message":"no","type":"t","code":404}}')?.code, "404");
  assert.equal(readFault("<html>"), null);
  assert.equal(endingOf(readWhole("<html>")), "cut");
});

test("vectors are counted, as numbers and in base64", () => {
  const whole = (...embeddings: unknown[]) => readWhole(JSON.stringify({ object: "list", data: embeddings.map((embedding, index) => ({ object: "embedding", index, embedding })) })).vectors;
  assert.deepEqual(whole([0.5, 1, 2], [1, 2, 3]), { count: 2, length: 3 });
  assert.deepEqual(whole("AACAPwAAAEA="), { count: 1, length: 2 });
  assert.deepEqual(whole([1], [1, 2]), { count: 2, length: null });
  assert.equal(readWhole('{"object":"list","data":[]}').vectors, undefined);
});

test("a text completion, streamed and whole", () => {
  const chunk = (text: string, finish_reason: string | null) => ({ data: JSON.stringify({ id: "cmpl-1", object: "text_completion", choices: [{ index: 0, text, logprobs: null, finish_reason }] }) });
  const answer = [chunk("Once ", null), chunk("upon", "length"), { data: "[DONE]" }].reduce(fold, NOTHING);
  assert.deepEqual([answer.choices[0]?.text, answer.choices[0]?.finish, answer.pieces, endingOf(answer)], ["Once upon", "length", 2, "whole"]);
  assert.equal(readWhole(chunk("Once", "stop").data).choices[0]?.text, "Once");
});
