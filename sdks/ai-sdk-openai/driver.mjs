// The AI SDK with OpenAI's own provider: `.chat`, for its default speaks the Responses API.

import { createOpenAI } from "@ai-sdk/openai";
import * as ai from "ai";

import { checksOf } from "../ai-sdk.mjs";
import { run, saw } from "../observe.mjs";

const provider = (job, apiKey) => createOpenAI({ baseURL: job.base_url, apiKey });

async function embeddings(job, model) {
  const asked = { model: provider(job, job.key).embeddingModel(model), values: job.inputs };
  return saw({ vectors: (await ai.embedMany(asked)).embeddings });
}

async function completions(job, model) {
  const asked = { model: provider(job, job.key).completion(model), prompt: job.prompt, onError() {} };
  let streamed = "";
  for await (const part of ai.streamText(asked).stream) if (part.type === "text-delta") streamed += part.text;
  return saw({ streamed, buffered: (await ai.generateText(asked)).text });
}

await run({ ...checksOf(ai, (job, apiKey) => provider(job, apiKey).chat, false), embeddings, completions });
