/* See wire.h. The frames have the members, and about the length, that the providers' own have. */
#define _GNU_SOURCE
#include "wire.h"

#include "amazon.h"

typedef unsigned long long number;

/* One event, as one chunk of the body. */
__attribute__((format(printf, 2, 3))) static void add_event(struct buffer *output, const char *format, ...)
{
    char event[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(event, sizeof event, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof event)
        die("an event that is too long");
    buffer_print(output, "%x\r\n", (unsigned)length);
    buffer_add(output, event, (size_t)length);
    buffer_add(output, "\r\n", 2);
}

/* ---- OpenAI's chat completions, and a server that speaks them with ids of its own */

#define OPENAI_HEAD                                                                       \
    "{\"id\":\"%s%016llu\",\"object\":\"%s\",\"created\":1731650000,\"model\":\"%s\","    \
    "\"system_fingerprint\":\"fp_0ba0d124f1\","

static void add_chunk(struct buffer *output, const struct answer *answer, const char *choices, const char *usage)
{
    add_event(output, "data: " OPENAI_HEAD "\"choices\":[%s]%s}\n\n", answer->wire->id, (number)answer->stream,
              "chat.completion.chunk", answer->wire->model, choices, usage);
}

static void add_choice(struct buffer *output, const struct answer *answer, const char *delta, const char *finish)
{
    char choice[512];
    snprintf(choice, sizeof choice, "{\"index\":0,\"delta\":{%s},\"logprobs\":null,\"finish_reason\":%s}", delta,
             finish);
    add_chunk(output, answer, choice, answer->wants_usage ? ",\"usage\":null" : "");
}

static void start_openai(struct buffer *output, const struct answer *answer)
{
    add_choice(output, answer, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null", "null");
}

static void text_openai(struct buffer *output, const struct answer *answer, const char *text)
{
    char delta[128];
    snprintf(delta, sizeof delta, "\"content\":\"%s\"", text);
    add_choice(output, answer, delta, "null");
}

static void end_openai(struct buffer *output, const struct answer *answer)
{
    char usage[512];
    add_choice(output, answer, "", "\"stop\"");
    if (answer->wants_usage) {
        snprintf(usage, sizeof usage,
                 ",\"usage\":{\"prompt_tokens\":212,\"completion_tokens\":%d,\"total_tokens\":%d,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"
                 "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,"
                 "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}",
                 answer->chunks, answer->chunks + 212);
        add_chunk(output, answer, "", usage);
    }
    add_event(output, "data: [DONE]\n\n");
}

void write_whole(struct buffer *output, const struct answer *answer)
{
    static const char TEXT[] = "The quick brown fox jumps over the lazy dog. A mock answer, of a plausible length.";
    buffer_print(output,
                 OPENAI_HEAD "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\","
                             "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
                             "\"usage\":{\"prompt_tokens\":212,\"completion_tokens\":20,\"total_tokens\":232}}",
                 answer->wire->id, (number)answer->stream, "chat.completion", answer->wire->model, TEXT);
}

/* ---- Anthropic's Messages */

static void start_anthropic(struct buffer *output, const struct answer *answer)
{
    add_event(output,
              "event: message_start\n"
              "data: {\"type\":\"message_start\",\"message\":{\"model\":\"%s\",\"id\":\"%s%016llu\",\"type\":\"message\","
              "\"role\":\"assistant\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":"
              "{\"input_tokens\":212,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
              "\"output_tokens\":1,\"service_tier\":\"standard\"}}}\n\n",
              answer->wire->model, answer->wire->id, (number)answer->stream);
    add_event(output, "event: content_block_start\n"
                      "data: {\"type\":\"content_block_start\",\"index\":0,"
                      "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
}

static void text_anthropic(struct buffer *output, const struct answer *answer, const char *text)
{
    (void)answer;
    add_event(output,
              "event: content_block_delta\n"
              "data: {\"type\":\"content_block_delta\",\"index\":0,"
              "\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n",
              text);
}

static void end_anthropic(struct buffer *output, const struct answer *answer)
{
    add_event(output, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n");
    add_event(output,
              "event: message_delta\n"
              "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
              "\"usage\":{\"output_tokens\":%d}}\n\n",
              answer->chunks);
    add_event(output, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

/* ---- OpenAI's Responses */

static void start_responses(struct buffer *output, const struct answer *answer)
{
    add_event(output,
              "event: response.created\n"
              "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"%s%016llu\","
              "\"object\":\"response\",\"created_at\":1744220042,\"status\":\"in_progress\",\"error\":null,"
              "\"model\":\"%s\",\"output\":[],\"service_tier\":\"default\",\"tools\":[],\"usage\":null}}\n\n",
              answer->wire->id, (number)answer->stream, answer->wire->model);
    add_event(output, "event: response.output_item.added\n"
                      "data: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,"
                      "\"item\":{\"id\":\"msg_Mock\",\"type\":\"message\",\"status\":\"in_progress\",\"content\":[],"
                      "\"role\":\"assistant\"}}\n\n");
}

static void text_responses(struct buffer *output, const struct answer *answer, const char *text)
{
    add_event(output,
              "event: response.output_text.delta\n"
              "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,"
              "\"item_id\":\"msg_05500b38c2cd9bfc00691c7c9d222481a3b595421266dab424\",\"output_index\":0,"
              "\"content_index\":0,\"delta\":\"%s\",\"logprobs\":[],\"obfuscation\":\"4mWYHXo8jE\"}\n\n",
              answer->sent + 2, text);
}

static void end_responses(struct buffer *output, const struct answer *answer)
{
    add_event(output,
              "event: response.completed\n"
              "data: {\"type\":\"response.completed\",\"sequence_number\":%d,\"response\":{\"id\":\"%s%016llu\","
              "\"object\":\"response\",\"created_at\":1744220042,\"status\":\"completed\",\"error\":null,"
              "\"model\":\"%s\",\"output\":[],\"service_tier\":\"default\",\"tools\":[],\"usage\":"
              "{\"input_tokens\":212,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":%d,"
              "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%d}}}\n\n",
              answer->chunks + 2, answer->wire->id, (number)answer->stream, answer->wire->model, answer->chunks,
              answer->chunks + 212);
}

/* ---- Gemini's streamGenerateContent: no start, no end, the finish is a member of the last frame */

static void add_candidate(struct buffer *output, const struct answer *answer, const char *text, const char *finish)
{
    add_event(output,
              "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"%s\"}],\"role\":\"model\"},%s\"index\":0}],"
              "\"usageMetadata\":{\"promptTokenCount\":212,\"candidatesTokenCount\":%d,\"totalTokenCount\":%d,"
              "\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":212}]},"
              "\"modelVersion\":\"%s\",\"responseId\":\"%s%016llu\"}\r\n\r\n",
              text, finish, answer->sent, answer->sent + 212, answer->wire->model, answer->wire->id,
              (number)answer->stream);
}

static void start_gemini(struct buffer *output, const struct answer *answer)
{
    (void)output;
    (void)answer;
}

static void text_gemini(struct buffer *output, const struct answer *answer, const char *text)
{
    add_candidate(output, answer, text, "");
}

static void end_gemini(struct buffer *output, const struct answer *answer)
{
    add_candidate(output, answer, "", "\"finishReason\":\"STOP\",");
}

/* ---- Bedrock's Converse, in Amazon's frames */

__attribute__((format(printf, 3, 4))) static void add_message(struct buffer *output, const char *type,
                                                              const char *format, ...)
{
    char payload[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(payload, sizeof payload, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof payload)
        die("an event that is too long");
    if (type)
        amazon_add(output, type, payload, (size_t)length);
    else
        amazon_add_chunk(output, payload, (size_t)length);
}

static void start_converse(struct buffer *output, const struct answer *answer)
{
    (void)answer;
    add_message(output, "messageStart", "{\"p\":\"abcdefghijklmnopqrstuvw\",\"role\":\"assistant\"}");
}

static void text_converse(struct buffer *output, const struct answer *answer, const char *text)
{
    (void)answer;
    add_message(output, "contentBlockDelta",
                "{\"contentBlockIndex\":0,\"delta\":{\"text\":\"%s\"},\"p\":\"abcdefghijklmnopqrstuvwxyzABCDE\"}", text);
}

static void end_converse(struct buffer *output, const struct answer *answer)
{
    add_message(output, "contentBlockStop", "{\"contentBlockIndex\":0,\"p\":\"abcdefg\"}");
    add_message(output, "messageStop", "{\"p\":\"abcdefghij\",\"stopReason\":\"end_turn\"}");
    add_message(output, "metadata",
                "{\"metrics\":{\"latencyMs\":802},\"p\":\"abcdef\",\"usage\":{\"cacheReadInputTokenCount\":0,"
                "\"cacheReadInputTokens\":0,\"cacheWriteInputTokenCount\":0,\"cacheWriteInputTokens\":0,"
                "\"inputTokens\":212,\"outputTokens\":%d,\"serverToolUsage\":{},\"totalTokens\":%d}}",
                answer->chunks, answer->chunks + 212);
}

/* ---- Bedrock's InvokeModel for Claude: Anthropic's events, in base64 inside Amazon's frames */

static void start_invoke(struct buffer *output, const struct answer *answer)
{
    add_message(output, NULL,
                "{\"type\":\"message_start\",\"message\":{\"model\":\"%s\",\"id\":\"%s%016llu\",\"type\":\"message\","
                "\"role\":\"assistant\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":"
                "{\"input_tokens\":212,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
                "\"output_tokens\":1}}}",
                answer->wire->model, answer->wire->id, (number)answer->stream);
    add_message(output, NULL,
                "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}");
}

static void text_invoke(struct buffer *output, const struct answer *answer, const char *text)
{
    (void)answer;
    add_message(output, NULL,
                "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}",
                text);
}

static void end_invoke(struct buffer *output, const struct answer *answer)
{
    add_message(output, NULL, "{\"type\":\"content_block_stop\",\"index\":0}");
    add_message(output, NULL,
                "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
                "\"usage\":{\"output_tokens\":%d}}",
                answer->chunks);
    add_message(output, NULL,
                "{\"type\":\"message_stop\",\"amazon-bedrock-invocationMetrics\":{\"inputTokenCount\":212,"
                "\"outputTokenCount\":%d,\"invocationLatency\":802,\"firstByteLatency\":310}}",
                answer->chunks);
}

/* The last one has no mark: it is meant wherever no other is. */
static const struct wire WIRES[] = {
    {.mark = "/messages",
     .start = start_anthropic,
     .text = text_anthropic,
     .end = end_anthropic,
     .id = "msg_01Mock",
     .model = "claude-sonnet-4-5-20250929"},
    {.mark = "/responses",
     .start = start_responses,
     .text = text_responses,
     .end = end_responses,
     .id = "resp_Mock",
     .model = "gpt-5.1-2026-02-11"},
    {.mark = ":streamGenerateContent",
     .start = start_gemini,
     .text = text_gemini,
     .end = end_gemini,
     .streams_by_path = true,
     .id = "Mock",
     .model = "gemini-2.5-flash"},
    {.mark = "/converse-stream",
     .start = start_converse,
     .text = text_converse,
     .end = end_converse,
     .streams_by_path = true,
     .media = AMAZON_STREAM},
    {.mark = "/invoke-with-response-stream",
     .start = start_invoke,
     .text = text_invoke,
     .end = end_invoke,
     .streams_by_path = true,
     .media = AMAZON_STREAM,
     .id = "msg_bdrk_01Mock",
     .model = "claude-sonnet-4-5-20250929"},
    {.mark = "/foreign/", /* neither an id of OpenAI's form nor a model: a gateway must write both */
     .start = start_openai,
     .text = text_openai,
     .end = end_openai,
     .has_whole_answer = true,
     .id = "mock-",
     .model = ""},
    {.mark = "",
     .start = start_openai,
     .text = text_openai,
     .end = end_openai,
     .has_whole_answer = true,
     .id = "chatcmpl-Mock",
     .model = "gpt-4o-mini-2024-07-18"},
};

const struct wire *wire_of(const char *line, size_t length)
{
    const struct wire *wire = WIRES;
    while (*wire->mark && !memmem(line, length, wire->mark, strlen(wire->mark)))
        wire++;
    return wire;
}
