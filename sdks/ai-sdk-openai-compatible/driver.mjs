// The AI SDK with the provider that it offers for servers like this one.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";

import { checksOf } from "../ai-sdk.mjs";
import { run } from "../observe.mjs";

const more = { name: "streamweir", includeUsage: true, supportsStructuredOutputs: true };
const make = (job, apiKey) => createOpenAICompatible({ baseURL: job.base_url, apiKey, ...more });

await run(checksOf(ai, make, true));
