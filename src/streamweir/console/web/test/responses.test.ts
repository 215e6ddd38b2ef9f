// The Responses API: what its events amount to, when a stream is whole, and the body that the playground sends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOf, fold, NOTHING, readFault, readWhole, type Answer } from "../src/lib/chat";
import { bodyOf, continued, EXAMPLE_TOOLS, NEW_DRAFT, type Draft } from "../src/lib/draft";
import { chatTool, messagesTool, responsesTool } from "../src/lib/tools";

const folded = (...events: object[]): Answer => events.reduce<Answer>((answer, each) => fold(answer, { data: JSON.stringify(each) }), NOTHING);
const draft = (more: Partial<Draft> = {}): Draft => ({ ...NEW_DRAFT, prompt: "Hi", ...more });

const usage = { input_tokens: 120, input_tokens_details: { cached_tokens: 100, cache_write_tokens: 0 }, output_tokens: 7, output_tokens_details: { reasoning_tokens: 3 }, total_tokens: 127 };
const response = (more: object) => ({ id: "resp_1", object: "response", model: "m", status: "in_progress", output: [], usage: null, error: null, ...more });
const START = [
  { type: "response.created", response: response({}) },
  { type: "response.in_progress", response: response({}) },
];
const added = (output_index: number, item: object) => ({ type: "response.output_item.added", output_index, item });
const done = (output_index: number, item: object) => ({ type: "response.output_item.done", output_index, item });
const piece = (output_index: number, kind: string, delta: string) => ({ type: `response.${kind}.delta`, output_index, content_index: 0, delta });
const end = (status: string, more: object = {}) => ({ type: `response.${status}`, response: response({ status, usage, ...more }) });

const REASONING = { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "They want weather." }], encrypted_content: "sealed" };
const THINKING = [
  added(0, { id: "rs_1", type: "reasoning", summary: [] }),
  { type: "response.reasoning_summary_part.added", output_index: 0, summary_index: 0, part: { type: "summary_text", text: "" } },
  piece(0, "reasoning_summary_text", "They want "),
  piece(0, "reasoning_summary_text", "weather."),
  done(0, REASONING),
];
const CALL = { id: "fc_1", type: "function_call", call_id: "call_1", name: "f", arguments: "" };
const CUSTOM = { id: "ctc_1", type: "custom_tool_call", call_id: "call_2", name: "patch", namespace: "files", input: "" };
const CALLS = [
  added(1, CALL),
  piece(1, "function_call_arguments", '{"a":'),
  added(2, CUSTOM),
  piece(2, "custom_tool_call_input", "*** Begin"),
  piece(1, "function_call_arguments", "1}"),
  done(1, { ...CALL, arguments: '{"a":1}' }),
  done(2, { ...CUSTOM, input: "*** Begin" }),
];
const TEXT = [added(0, { id: "msg_1", type: "message", role: "assistant", content: [] }), piece(0, "output_text", "Hel"), { type: "keepalive" }, piece(0, "output_text", "lo")];

test("text: joined, counted, whole with its last event alone", () => {
  const answer = folded(...START, ...TEXT, end("completed"));
  assert.deepEqual([answer.id, answer.model, answer.choices[0]?.text, answer.choices[0]?.finish], ["resp_1", "m", "Hello", "completed"]);
  assert.deepEqual(answer.use, { prompt: 120, completion: 7, cached: 100, reasoning: 3 });
  assert.deepEqual([answer.pieces, answer.unread], [2, 0]);
  assert.equal(endingOf(answer), "whole");
  assert.equal(endingOf(folded(...START, ...TEXT)), "cut");
  const cut = folded(...START, ...TEXT, end("incomplete", { incomplete_details: { reason: "max_output_tokens" } }));
  assert.deepEqual([cut.choices[0]?.finish, endingOf(cut)], ["max_output_tokens", "whole"]);
  assert.equal(endingOf(folded(...START, end("completed"))), "whole", "it said nothing");
});

test("an error: that of the frame before the end, or of the end itself", () => {
  const error = { type: "error", error: { type: "server_error", code: "server_error", message: "gone", param: null } };
  const failed = end("failed", { error: { code: "server_error", message: "gone" }, usage: null });
  const answer = folded(...START, ...TEXT, error, failed);
  assert.deepEqual([endingOf(answer), answer.fault, answer.choices[0]?.text], ["failed", { message: "gone", type: "server_error", code: "server_error" }, "Hello"]);
  assert.deepEqual(folded(...START, failed).fault, { message: "gone", type: null, code: "server_error" });
  assert.deepEqual(folded({ type: "error", code: "x", message: "flat", param: null }).fault, { message: "flat", type: null, code: "x" });
  assert.equal(readFault('{"error":{"message":"no","type":"invalid_request_error","param":"input","code":"invalid_type"}}')?.code, "invalid_type");
});

test("reasoning and calls, each of its own item, also where two are open", () => {
  const [choice] = folded(...START, ...THINKING, ...CALLS, end("completed")).choices;
  assert.equal(choice?.reasoning, "They want weather.");
  assert.deepEqual(choice?.thoughts, [{ item: REASONING }]);
  assert.deepEqual(choice?.calls, [
    { id: "call_1", name: "f", arguments: '{"a":1}' },
    { id: "call_2", name: "patch", arguments: "*** Begin", isCustom: true, namespace: "files" },
  ]);
});

test("what the end of an item says counts, and what is not known is passed over", () => {
  const spoken = { id: "msg_1", type: "message", content: [{ type: "output_text", text: "All." }, { type: "refusal", refusal: "No." }] };
  const answer = folded(...START, done(0, spoken), { type: "response.new_event", output_index: 7 }, { type: "response.output_item.added", output_index: 1e9, item: CALL });
  assert.deepEqual([answer.choices[0]?.text, answer.choices[0]?.refusal, answer.choices[0]?.calls, answer.unread], ["All.", "No.", [], 0]);
});

test("an item of another kind is shown as it is", () => {
  const search = { id: "ws_1", type: "web_search_call", status: "completed", action: { type: "search", query: "weir" } };
  const [choice] = folded(...START, added(0, { ...search, status: "in_progress" }), done(0, search), end("completed")).choices;
  assert.deepEqual(choice?.others, [{ id: "ws_1", name: "web_search_call", arguments: '{"status":"completed","action":{"type":"search","query":"weir"}}' }]);
});

test("a whole response", () => {
  const output = [REASONING, { id: "msg_1", type: "message", content: [{ type: "output_text", text: "Yes." }] }, { ...CALL, arguments: "{}" }];
  const answer = readWhole(JSON.stringify(response({ status: "completed", output, usage })));
  const [choice] = answer.choices;
  assert.deepEqual([choice?.reasoning, choice?.text, choice?.calls.length, choice?.finish, answer.use?.completion], ["They want weather.", "Yes.", 1, "completed", 7]);
  assert.equal(endingOf(answer), "whole");
  assert.equal(endingOf(readWhole(JSON.stringify(response({ status: "failed", error: { code: "server_error", message: "no" } })))), "failed");
});

test("the body: what the API knows, and nothing of the others", () => {
  assert.deepEqual(bodyOf(draft(), "m", "responses"), { body: { model: "m", input: "Hi", stream: true }, problems: {} });
  const { body, problems } = bodyOf(
    draft({ system: "Be brief.", temperature: "0", maxTokens: "64", topP: "0.9", seed: "x", stop: "a", effort: "low", isStreamed: false, tools: EXAMPLE_TOOLS }),
    "m",
    "responses",
  );
  assert.deepEqual(problems, {});
  assert.deepEqual([body.instructions, body.input, body.temperature, body.max_output_tokens, body.top_p], ["Be brief.", "Hi", 0, 64, 0.9]);
  assert.deepEqual([body.reasoning, body.stream], [{ effort: "low", summary: "auto" }, false]);
  assert.deepEqual(Object.keys((body.tools as object[])[0] ?? {}), ["type", "name", "description", "parameters"]);
  for (const member of ["seed", "stop", "max_tokens", "reasoning_effort", "stream_options", "messages"]) assert.equal(member in body, false, member);
  assert.deepEqual(bodyOf(draft({ effort: "none" }), "m", "responses").body.reasoning, { effort: "none" });
});

test("an answer goes on with its reasoning, its calls and their results, also by another API", () => {
  const [choice] = folded(...START, ...THINKING, ...CALLS, end("completed")).choices;
  assert.ok(choice);
  const turns = continued(draft(), choice).turns.map((turn) => (turn.callId ? { ...turn, text: `result of ${turn.callId}` } : turn));
  const next = draft({ turns, prompt: "And?" });
  assert.deepEqual(bodyOf(next, "m", "responses").body.input, [
    { role: "user", content: "Hi" },
    REASONING,
    { type: "function_call", call_id: "call_1", name: "f", arguments: '{"a":1}' },
    { type: "custom_tool_call", call_id: "call_2", name: "patch", namespace: "files", input: "*** Begin" },
    { type: "function_call_output", call_id: "call_1", output: "result of call_1" },
    { type: "custom_tool_call_output", call_id: "call_2", output: "result of call_2" },
    { role: "user", content: "And?" },
  ]);
  const chat = bodyOf(next, "m").body.messages as { tool_calls?: object[] }[];
  assert.deepEqual(chat[1]?.tool_calls, [
    { id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
    { id: "call_2", type: "custom", custom: { name: "patch", input: "*** Begin" } },
  ]);
  const [, assistant] = bodyOf(next, "m", "messages").body.messages as { content: { type: string }[] }[];
  assert.deepEqual(assistant?.content.map((block) => block.type), ["tool_use", "tool_use"]);
});

test("a custom call of chat completions", () => {
  const chunk = (call: object) => ({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...call }] }, finish_reason: null }] });
  const [choice] = folded(chunk({ id: "c", type: "custom", custom: { name: "patch", input: "" } }), chunk({ custom: { input: "*** " } }), chunk({ custom: { input: "Begin" } })).choices;
  assert.deepEqual(choice?.calls, [{ id: "c", name: "patch", arguments: "*** Begin", isCustom: true }]);
});

test("a tool of any API is written as each of them knows it", () => {
  const schema = { type: "object" };
  const functions = [
    { type: "function", function: { name: "f", description: "d", parameters: schema, strict: true } },
    { name: "f", description: "d", input_schema: schema, strict: true },
    { type: "function", name: "f", description: "d", parameters: schema, strict: true },
  ] as const;
  for (const tool of functions) assert.deepEqual([chatTool(tool), messagesTool(tool), responsesTool(tool)], functions);
  const chat = { type: "custom", custom: { name: "p", format: { type: "text" } } };
  const flat = { type: "custom", name: "p", format: { type: "text" } };
  for (const tool of [chat, flat]) assert.deepEqual([chatTool(tool), messagesTool(tool), responsesTool(tool)], [chat, tool, flat]);
  const own = { type: "web_search" };
  assert.deepEqual([chatTool(own), messagesTool(own), responsesTool(own)], [own, own, own]);
});
