// How the SDKs of OpenAI and Anthropic are called, for each API. Data alone: what a snippet is made of.
import { COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES } from "./apis";

export interface Sdk {
  path: string; // behind `/v1/`
  method: string;
  asked: string; // the member that holds what is asked
  named: ReadonlySet<string>; // what `create` takes by name in Python; it refuses others, which go into `extra_body`
  answer: string; // the variable of an answer that is whole
  python: { stream: readonly string[]; whole: string };
  javascript: { stream: readonly string[]; whole: string };
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

const CHAT: Sdk = {
  path: "chat/completions",
  method: "chat.completions.create",
  asked: "messages",
  named: words(
    `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
     modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort response_format
     safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p
     user verbosity web_search_options`,
  ),
  answer: "answer",
  python: {
    stream: ["for chunk in stream:", "    if chunk.choices:", '        print(chunk.choices[0].delta.content or "", end="", flush=True)'],
    whole: "print(answer.choices[0].message.content)",
  },
  javascript: {
    stream: ["for await (const chunk of stream) {", '  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");', "}"],
    whole: "console.log(answer.choices[0].message.content);",
  },
};

const OTHERS: Record<string, Sdk> = {
  [MESSAGES]: {
    path: "messages",
    method: "messages.create",
    asked: "messages",
    named: words(
      `cache_control container max_tokens messages metadata model output_config service_tier stop_sequences stream system
       temperature thinking tool_choice tools top_k top_p`,
    ),
    answer: "message",
    python: {
      stream: [
        "for event in stream:",
        '    if event.type == "content_block_delta" and event.delta.type == "text_delta":',
        '        print(event.delta.text, end="", flush=True)',
      ],
      whole: 'print("".join(block.text for block in message.content if block.type == "text"))',
    },
    javascript: {
      stream: [
        "for await (const event of stream) {",
        '  if (event.type === "content_block_delta" && event.delta.type === "text_delta") process.stdout.write(event.delta.text);',
        "}",
      ],
      whole: 'for (const block of message.content) if (block.type === "text") process.stdout.write(block.text);',
    },
  },
  [RESPONSES]: {
    path: "responses",
    method: "responses.create",
    asked: "input",
    named: words(
      `background conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls
       previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store stream stream_options
       temperature text tool_choice tools top_logprobs top_p truncation user`,
    ),
    answer: "response",
    python: {
      stream: ["for event in stream:", '    if event.type == "response.output_text.delta":', '        print(event.delta, end="", flush=True)'],
      whole: "print(response.output_text)",
    },
    javascript: {
      stream: ["for await (const event of stream) {", '  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);', "}"],
      whole: "console.log(response.output_text);",
    },
  },
  [EMBEDDINGS]: {
    path: "embeddings",
    method: "embeddings.create",
    asked: "input",
    named: words("dimensions encoding_format input model user"),
    answer: "answer",
    python: { stream: [], whole: "print([len(each.embedding) for each in answer.data])" },
    javascript: { stream: [], whole: "console.log(answer.data.map((each) => each.embedding.length));" },
  },
  [COMPLETIONS]: {
    path: "completions",
    method: "completions.create",
    asked: "prompt",
    named: words(
      `best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty prompt seed stop stream
       stream_options suffix temperature top_p user`,
    ),
    answer: "answer",
    python: {
      stream: ["for chunk in stream:", "    if chunk.choices:", '        print(chunk.choices[0].text, end="", flush=True)'],
      whole: "print(answer.choices[0].text)",
    },
    javascript: {
      stream: ["for await (const chunk of stream) {", '  process.stdout.write(chunk.choices[0]?.text ?? "");', "}"],
      whole: "console.log(answer.choices[0].text);",
    },
  },
};

export function sdkOf(api: string | null): Sdk {
  return (api !== null && Object.hasOwn(OTHERS, api) && OTHERS[api]) || CHAT;
}
