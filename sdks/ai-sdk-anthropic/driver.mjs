// The AI SDK with its provider for Anthropic.

import { createAnthropic } from "@ai-sdk/anthropic";
import * as ai from "ai";

import { checksOf } from "../ai-sdk.mjs";
import { run } from "../observe.mjs";

const make = (job, apiKey) => createAnthropic({ baseURL: job.base_url, apiKey });
// Else a model that it does not know is asked for structured output by a tool.
const parsed = { anthropic: { structuredOutputMode: "outputFormat" } };

await run(checksOf(ai, make, true, { parsed }));
