// The official SDK for Node over the Responses API: `create`, streamed and whole, `.stream()` and `.parse()`.

import OpenAI, { APIError } from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { raised, run, saw } from "../observe.mjs";

// As the job's schema says.
const Weather = z.object({ city: z.string(), degrees: z.int() });

function api(job, key = job.key) {
  return new OpenAI({ baseURL: job.base_url, apiKey: key }).responses;
}

function question(job, model, more = {}) {
  return { model, input: job.prompt, max_output_tokens: job.max_tokens, temperature: 0, ...more };
}

// The deltas of one kind, added up for each item.
async function pieces(job, kind, asked) {
  const added = new Map();
  for await (const event of await api(job).create({ ...asked, stream: true })) {
    if (event.type === kind) added.set(event.output_index, (added.get(event.output_index) ?? "") + event.delta);
  }
  return added;
}

const final = (job, asked) => api(job).stream(asked).finalResponse();

async function text(job, model) {
  const asked = question(job, model);
  const streamed = [...(await pieces(job, "response.output_text.delta", asked)).values()].join("");
  const helper = (await final(job, asked)).output_text;
  return saw({ streamed, helper, buffered: (await api(job).create(asked)).output_text });
}

async function tools(job, model) {
  const asked = question(job, model, { tools: [{ type: "function", strict: true, ...job.tool }] });
  const calls = ({ output }) =>
    output.filter(({ type }) => type === "function_call").map(({ name, arguments: args }) => ({ name, arguments: args }));
  const streamed = new Map();
  for await (const event of await api(job).create({ ...asked, stream: true })) {
    if (event.type === "response.output_item.added" && event.item.type === "function_call") {
      streamed.set(event.output_index, { name: event.item.name, arguments: "" });
    } else if (event.type === "response.function_call_arguments.delta") {
      streamed.get(event.output_index).arguments += event.delta;
    }
  }
  const helper = calls(await final(job, asked));
  return saw({ streamed: [...streamed.values()], helper, buffered: calls(await api(job).create(asked)) });
}

// The items of the answer are sent back with the results of its calls.
async function results(job, model) {
  const asked = question(job, model, { tools: [{ type: "function", strict: true, ...job.tool }] });
  const answered = ({ output }) => {
    const calls = output.filter(({ type }) => type === "function_call");
    const told = calls.map(({ call_id, arguments: args }) => ({
      type: "function_call_output",
      call_id,
      output: `Sun over ${JSON.parse(args).city}.`,
    }));
    return { ...asked, input: [{ role: "user", content: job.prompt }, ...output, ...told] };
  };
  const streamed = (await final(job, answered(await final(job, asked)))).output_text;
  const buffered = (await api(job).create(answered(await api(job).create(asked)))).output_text;
  return saw({ streamed, buffered });
}

async function reasoning(job, model) {
  const asked = question(job, model, { reasoning: { summary: "auto" } });
  const thoughts = ({ output }) =>
    output
      .filter(({ type }) => type === "reasoning")
      .flatMap(({ summary }) => summary.map((part) => part.text))
      .join("");
  const streamed = [...(await pieces(job, "response.reasoning_summary_text.delta", asked)).values()].join("");
  const helper = thoughts(await final(job, asked));
  return saw({ streamed, helper, buffered: thoughts(await api(job).create(asked)) });
}

async function usage(job, model) {
  const asked = question(job, model);
  const numbers = ({ usage: found }) => [found?.input_tokens, found?.output_tokens, found?.total_tokens];
  let streamed;
  for await (const event of await api(job).create({ ...asked, stream: true })) {
    if (event.type === "response.completed") streamed = numbers(event.response);
  }
  return saw({ streamed, helper: numbers(await final(job, asked)), buffered: numbers(await api(job).create(asked)) });
}

async function parsed(job, model) {
  const asked = question(job, model, { text: { format: zodTextFormat(Weather, "weather") } });
  const streamed = (await final(job, asked)).output_parsed;
  return saw({ streamed, buffered: (await api(job).parse(asked)).output_parsed });
}

async function error(job, model) {
  let before = "";
  try {
    for await (const event of await api(job).create(question(job, model, { stream: true }))) {
      if (event.type === "response.output_text.delta") before += event.delta;
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

await run({ text, tools, results, reasoning, usage, parsed, error, refused, key });
