// The AI SDK with OpenAI's own provider: `.chat`, for its default speaks the Responses API.

import { createOpenAI } from "@ai-sdk/openai";
import * as ai from "ai";

import { checksOf } from "../ai-sdk.mjs";
import { run } from "../observe.mjs";

const make = (job, apiKey) => createOpenAI({ baseURL: job.base_url, apiKey }).chat;

await run(checksOf(ai, make, false));
