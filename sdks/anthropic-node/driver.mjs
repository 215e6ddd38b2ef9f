// Anthropic's official SDK for Node: `create`, streamed and whole, and the `.stream()` helper.

import Anthropic, { APIError } from "@anthropic-ai/sdk";

import { raised, run, saw } from "../observe.mjs";

// Its addresses begin with the version themselves.
function api(job, apiKey = job.key) {
  return new Anthropic({ baseURL: job.base_url.replace(/\/v1$/, ""), apiKey }).messages;
}

function question(job, model, more = {}) {
  return {
    model,
    messages: [{ role: "user", content: job.prompt }],
    max_tokens: job.max_tokens,
    temperature: 0,
    ...more,
  };
}

// What the blocks of a streamed message hold, added up.
async function streamedBlocks(job, asked) {
  const blocks = [];
  for await (const event of await api(job).create({ ...asked, stream: true })) {
    if (event.type === "content_block_start") blocks[event.index] = { ...event.content_block, added: "" };
    if (event.type !== "content_block_delta") continue;
    const { text, thinking, partial_json } = event.delta;
    blocks[event.index].added += text ?? thinking ?? partial_json ?? "";
  }
  return blocks;
}

const of = (type, member) => (blocks) =>
  blocks.filter((block) => block.type === type).map((block) => block.added ?? block[member]).join("");

async function allWays(job, asked, read) {
  const streamed = read(await streamedBlocks(job, asked));
  const helper = read((await api(job).stream(asked).finalMessage()).content);
  const buffered = read((await api(job).create(asked)).content);
  return saw({ streamed, helper, buffered });
}

const text = (job, model) => allWays(job, question(job, model), of("text", "text"));

async function tools(job, model) {
  const { name, description, parameters } = job.tool;
  const asked = question(job, model, { tools: [{ name, description, input_schema: parameters }] });
  const calls = (blocks) =>
    blocks.filter((block) => block.type === "tool_use").map((block) => ({ name: block.name, arguments: block.added ?? block.input }));
  return allWays(job, asked, calls);
}

const reasoning = (job, model) =>
  allWays(job, question(job, model, { thinking: { type: "adaptive" } }), of("thinking", "thinking"));

async function usage(job, model) {
  const asked = question(job, model);
  // What was in the cache of the provider is no part of the input here.
  const numbers = (found) => {
    const prompt = found.input_tokens + found.cache_read_input_tokens + found.cache_creation_input_tokens;
    return [prompt, found.output_tokens, prompt + found.output_tokens];
  };
  let streamed;
  for await (const event of await api(job).create({ ...asked, stream: true })) {
    if (event.type === "message_delta") streamed = numbers(event.usage);
  }
  const helper = numbers((await api(job).stream(asked).finalMessage()).usage);
  const buffered = numbers((await api(job).create(asked)).usage);
  return saw({ streamed, helper, buffered });
}

async function error(job, model) {
  let before = "";
  try {
    for await (const event of await api(job).create(question(job, model, { stream: true }))) {
      if (event.type === "content_block_delta") before += event.delta.text ?? "";
    }
  } catch (failure) {
    if (failure instanceof APIError) return raised(failure, failure.status, before);
    throw failure;
  }
  return saw({ streamed: before });
}

async function refusal(job, model, key) {
  try {
    await api(job, key).create(question(job, model, { stream: true }));
  } catch (failure) {
    if (failure instanceof APIError) return raised(failure, failure.status);
    throw failure;
  }
  return saw({});
}

const refused = (job, model) => refusal(job, model, job.key);
const key = (job, model) => refusal(job, model, job.wrong_key);

await run({ text, tools, reasoning, usage, error, refused, key });
