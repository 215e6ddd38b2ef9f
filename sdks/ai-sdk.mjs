// The checks of the AI SDK, whose providers differ in one thing: how the model is made.
// Its `stream` does not throw: an error is a part of it, and that is how its users meet one.

import { absent, raised, saw } from "./observe.mjs";

// `ai`: the package, `make(job, key)`: gives the model of a name, `showsReasoning`: whether the provider reads it,
// `options`: the provider's own for a check.
export function checksOf(ai, make, showsReasoning, options = {}) {
  const question = (job, model, key = job.key) => ({
    model: make(job, key)(model),
    prompt: job.prompt,
    maxOutputTokens: job.max_tokens,
    temperature: 0,
    onError() {}, // its default writes to the console
  });

  async function* parts(asked) {
    for await (const part of ai.streamText(asked).stream) {
      if (part.type === "error") throw part.error;
      yield part;
    }
  }

  async function text(job, model) {
    let streamed = "";
    for await (const part of parts(question(job, model))) if (part.type === "text-delta") streamed += part.text;
    const buffered = (await ai.generateText(question(job, model))).text;
    return saw({ streamed, buffered });
  }

  async function tools(job, model) {
    const inputSchema = ai.jsonSchema(job.tool.parameters);
    const offered = { [job.tool.name]: ai.tool({ description: job.tool.description, inputSchema }) };
    const asked = { ...question(job, model), tools: offered };
    const call = ({ toolName, input }) => ({ name: toolName, arguments: input });
    const streamed = [];
    for await (const part of parts(asked)) if (part.type === "tool-call") streamed.push(call(part));
    const buffered = (await ai.generateText(asked)).toolCalls.map(call);
    return saw({ streamed, buffered });
  }

  // The package runs the tools, and asks again with their results.
  async function results(job, model) {
    const inputSchema = ai.jsonSchema(job.tool.parameters);
    const execute = ({ city }) => `Sun over ${city}.`;
    const offered = { [job.tool.name]: ai.tool({ description: job.tool.description, inputSchema, execute }) };
    const asked = { ...question(job, model), tools: offered, stopWhen: ai.isStepCount(3), providerOptions: options.results };
    let streamed = "";
    for await (const part of parts(asked)) if (part.type === "text-delta") streamed += part.text;
    return saw({ streamed, buffered: (await ai.generateText(asked)).text });
  }

  async function reasoning(job, model) {
    let streamed = "";
    const asked = { ...question(job, model), providerOptions: options.reasoning };
    for await (const part of parts(asked)) if (part.type === "reasoning-delta") streamed += part.text;
    const buffered = (await ai.generateText(asked)).reasoningText ?? "";
    if (!showsReasoning && streamed === "" && buffered === "") {
      return absent("its chat model reads no reasoning from the wire");
    }
    return saw({ streamed, buffered });
  }

  async function parsed(job, model) {
    const output = ai.Output.object({ schema: ai.jsonSchema(job.schema) });
    const asked = { ...question(job, model), output, providerOptions: options.parsed };
    const result = ai.streamText(asked);
    await result.consumeStream();
    return saw({ streamed: await result.output, buffered: (await ai.generateText(asked)).output });
  }

  async function usage(job, model) {
    const numbers = ({ inputTokens, outputTokens, totalTokens }) => [inputTokens, outputTokens, totalTokens];
    let streamed;
    for await (const part of parts(question(job, model))) if (part.type === "finish") streamed = numbers(part.totalUsage);
    const buffered = numbers((await ai.generateText(question(job, model))).usage);
    return saw({ streamed, buffered });
  }

  async function error(job, model) {
    let before = "";
    try {
      for await (const part of parts(question(job, model))) if (part.type === "text-delta") before += part.text;
    } catch (failure) {
      if (ai.AISDKError.isInstance(failure)) return raised(failure, failure.statusCode, before);
      throw failure;
    }
    return saw({ streamed: before });
  }

  async function refusal(job, model, apiKey) {
    try {
      for await (const part of parts(question(job, model, apiKey))) void part;
    } catch (failure) {
      if (ai.APICallError.isInstance(failure)) return raised(failure, failure.statusCode);
      throw failure;
    }
    return saw({});
  }

  const refused = (job, model) => refusal(job, model, job.key);
  const key = (job, model) => refusal(job, model, job.wrong_key);

  return { text, tools, results, reasoning, usage, parsed, error, refused, key };
}
