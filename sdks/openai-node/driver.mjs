// The official SDK for Node: `create`, streamed and whole, and the `.stream()` helper.

import OpenAI, { APIError } from "openai";

import { raised, run, saw } from "../observe.mjs";

function client(job, key = job.key) {
  return new OpenAI({ baseURL: job.base_url, apiKey: key });
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

async function text(job, model) {
  const api = client(job).chat.completions;
  let streamed = "";
  for await (const chunk of await api.create(question(job, model, { stream: true }))) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  const helper = await api.stream(question(job, model)).finalContent();
  const buffered = (await api.create(question(job, model))).choices[0].message.content;
  return saw({ streamed, helper, buffered });
}

async function tools(job, model) {
  const api = client(job).chat.completions;
  const asked = question(job, model, { tools: [{ type: "function", function: job.tool }] });
  const calls = (message) => message.tool_calls.map(({ function: { name, arguments: args } }) => ({ name, arguments: args }));
  const streamed = [];
  for await (const chunk of await api.create({ ...asked, stream: true })) {
    for (const { index, function: part } of chunk.choices[0]?.delta.tool_calls ?? []) {
      streamed[index] ??= { name: "", arguments: "" };
      streamed[index].name += part.name ?? "";
      streamed[index].arguments += part.arguments ?? "";
    }
  }
  const helper = calls(await api.stream(asked).finalMessage());
  const buffered = calls((await api.create(asked)).choices[0].message);
  return saw({ streamed, helper, buffered });
}

async function reasoning(job, model) {
  const api = client(job).chat.completions;
  let streamed = "";
  for await (const chunk of await api.create(question(job, model, { stream: true }))) {
    streamed += chunk.choices[0]?.delta.reasoning_content ?? "";
  }
  const buffered = (await api.create(question(job, model))).choices[0].message.reasoning_content;
  return saw({ streamed, buffered });
}

async function usage(job, model) {
  const api = client(job).chat.completions;
  const numbers = (found) => [found?.prompt_tokens, found?.completion_tokens, found?.total_tokens];
  const asked = question(job, model, { stream_options: { include_usage: true } });
  let last;
  for await (const chunk of await api.create({ ...asked, stream: true })) last = chunk.usage ?? last;
  const helper = numbers(await api.stream(asked).totalUsage());
  const buffered = numbers((await api.create(question(job, model))).usage);
  return saw({ streamed: numbers(last), helper, buffered });
}

// By default it asks for base64, and decodes that.
async function embeddings(job, model) {
  const api = client(job).embeddings;
  const vectors = ({ data }) => data.map(({ embedding }) => embedding);
  const own = vectors(await api.create({ model, input: job.inputs }));
  const floats = vectors(await api.create({ model, input: job.inputs, encoding_format: "float" }));
  return saw({ own, floats });
}

// The legacy API.
async function completions(job, model) {
  const api = client(job).completions;
  const asked = { model, prompt: job.prompt, max_tokens: job.max_tokens };
  let streamed = "";
  for await (const chunk of await api.create({ ...asked, stream: true })) streamed += chunk.choices[0]?.text ?? "";
  return saw({ streamed, buffered: (await api.create(asked)).choices[0].text });
}

async function error(job, model) {
  let before = "";
  try {
    for await (const chunk of await client(job).chat.completions.create(question(job, model, { stream: true }))) {
      before += chunk.choices[0]?.delta.content ?? "";
    }
  } catch (failure) {
    if (failure instanceof APIError) return raised(failure, failure.status, before);
    throw failure;
  }
  return saw({ streamed: before });
}

async function refusal(job, model, key) {
  try {
    await client(job, key).chat.completions.create(question(job, model, { stream: true }));
  } catch (failure) {
    if (failure instanceof APIError) return raised(failure, failure.status);
    throw failure;
  }
  return saw({});
}

const refused = (job, model) => refusal(job, model, job.key);
const key = (job, model) => refusal(job, model, job.wrong_key);

await run({ text, tools, reasoning, usage, embeddings, completions, error, refused, key });
