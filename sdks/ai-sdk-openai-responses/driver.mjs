// The AI SDK with OpenAI's own provider as it is by default: over the Responses API.

import { createOpenAI } from "@ai-sdk/openai";
import * as ai from "ai";

import { checksOf } from "../ai-sdk.mjs";
import { run } from "../observe.mjs";

const make = (job, apiKey) => createOpenAI({ baseURL: job.base_url, apiKey });
// Else a model that it does not know is not asked for reasoning. With it, none is sent a temperature.
const reasoning = { openai: { reasoningSummary: "auto", forceReasoning: true } };
// Else it refers to items of earlier answers, and nothing is stored here.
const results = { openai: { store: false } };

await run(checksOf(ai, make, true, { reasoning, results }));
