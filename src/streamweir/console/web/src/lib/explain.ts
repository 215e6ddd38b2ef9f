// What a verdict and an error code mean, whose affair it is and what to do, in plain words. The codes are those of
// core/errors.py, the verdicts those of core/verdict.py; one that is not here is shown as it stands.

export type Whose = "caller" | "provider" | "gateway" | "operator" | null;

interface Explanation {
  what: string;
  whose: Whose;
  todo: string | null;
}

export const WHOSE: Record<Exclude<Whose, null>, string> = {
  caller: "Cause: the caller",
  provider: "Cause: the provider",
  gateway: "Cause: the gateway",
  operator: "Cause: the operator",
};

type Entry = readonly [what: string, whose: Whose, todo?: string];

const VERDICTS: Record<string, Entry> = {
  completed: ["The answer is complete.", null],
  length: ["The answer reached its token limit.", "caller", "Raise max_tokens (or max_completion_tokens) to get more."],
  filtered: ["The provider's content filter cut the answer.", "provider", "See the provider's content rules, or use another model."],
  truncated: ["The provider's stream ended before it was complete. The caller got an error frame.", "provider", "Retry. If one target does this often, check its health under Models."],
  idle_timeout: ["The provider stopped sending in the middle of the answer.", "provider", "Retry, or change `idle_s`, the longest allowed pause."],
  first_token_timeout: ["The provider took too long to start its answer.", "provider", "Retry, add a second target to the model, or change `first_event_s`."],
  client_gone: ["The caller closed the connection before the answer was complete.", "caller", "If this was not intended, check the timeouts of the client and of proxies in front of the gateway."],
  upstream_error: ["The provider refused the request or failed, and no other target was left, or `max_attempts` was reached.", "provider", "See the attempts below and the target's health under Models."],
  rejected: ["The request was refused before a provider was called.", "caller", "Fix what the error code names, and retry."],
  deadline: ["The answer took longer than the total timeout, or than the caller's own `x-request-timeout`.", "provider", "Request a shorter answer, or raise the timeout."],
  stopped: ["The request was stopped while it was running.", "operator"],
  shutdown: ["The gateway shut down before the answer was complete.", "gateway", "Retry. `drain_s` sets how long open streams may continue."],
  gateway_fault: ["The gateway itself failed. That is a bug.", "gateway", "Search the gateway's log for this id, and report the bug."],
  orphaned: ["The process that served the request died. The delivered part was settled by an estimate.", "gateway", "Check why the process died: its log, the system log, its memory."],
};

const ASK_AGAIN = "Retry later.";
const SEE_HEALTH = "See the target's health under Models, and the provider's status page.";

const CODES: Record<string, Entry> = {
  invalid_json: ["The body was not JSON.", "caller", "Send a JSON object, in UTF-8."],
  duplicate_key: ["An object in the body had the same member twice.", "caller", "Send each member once."],
  json_too_deep: ["The body was nested too deeply.", "caller", "Send a flatter body."],
  invalid_type: ["A member of the body had the wrong type.", "caller", "The error response names it in `param`."],
  invalid_value: ["A member of the body had an invalid value.", "caller", "The error response names it in `param`."],
  missing_required_parameter: ["A required member was missing.", "caller", "The error response names it in `param`."],
  unknown_parameter: ["The body had an unknown member.", "caller", "The error response names it in `param`."],
  context_length_exceeded: ["The prompt was longer than the model's context.", "caller", "Shorten it, or use a model with a longer context."],
  content_filter: ["The provider's filter refused the prompt.", "caller", "See the provider's rules."],
  idempotency_key_reused: ["The Idempotency-Key had been used with another body.", "caller", "Use a new one for a new request."],
  idempotency_in_progress: ["The first request with this Idempotency-Key was still running.", "caller", "Wait for it."],
  idempotency_completed: ["A request with this Idempotency-Key was answered already.", "caller", "The answer is not kept any more: use a new Idempotency-Key to send it again."],
  missing_api_key: ["No API key was sent.", "caller", "Send `Authorization: Bearer <key>`."],
  invalid_api_key: ["The API key is unknown.", "caller", "Check it under Keys."],
  expired_api_key: ["The API key has expired.", "caller", "Create a new one, or change its expiry under Keys."],
  key_revoked: ["The API key was revoked. Its streams end.", "operator", "Use another key."],
  insufficient_permissions: ["The key does not have the required scope.", "caller", "See its scopes under Keys."],
  model_not_found: ["The model does not exist, or the key may not use it.", "caller", "See Models for all models, and Keys for those that the key may use."],
  previous_response_not_found: ["The request continues an earlier response, and responses are not stored.", "caller", "Send the whole conversation in `input`, without `previous_response_id`."],
  unknown_url: ["There is nothing at this URL.", "caller", "There are /v1/chat/completions, /v1/responses, /v1/messages, /v1/embeddings and /v1/completions."],
  not_found: ["There is nothing at this URL. Answers are not stored, so none can be fetched, continued or deleted.", "caller"],
  method_not_allowed: ["The URL does not support this method.", "caller"],
  upgrade_required: ["The caller asked for a WebSocket, which is not served.", "caller", "Use HTTP: Codex does so by itself."],
  unsupported_media_type: ["The Content-Type was not JSON.", "caller", "Send `Content-Type: application/json`."],
  unsupported_content_encoding: ["The body was compressed, which is not supported.", "caller", "Send it uncompressed."],
  request_timeout: ["The body took too long to arrive.", "caller", "Check the caller's connection."],
  request_too_large: ["The body was too large.", "caller", "Send less, or raise the limit in the configuration."],
  headers_too_large: ["The headers were too large.", "caller", "Send less."],
  rate_limit_exceeded: ["The key's limit of requests or tokens per minute was reached.", "caller", "Wait as Retry-After says, or raise the limit under Keys."],
  concurrency_limit_exceeded: ["The key's limit of concurrent requests was reached.", "caller", "Wait for one to end, or raise the limit under Keys."],
  insufficient_quota: ["The workspace did not have enough credit.", "operator", "Top it up under Workspaces."],
  budget_exceeded: ["The key's budget was used up.", "operator", "Raise it under Keys, or wait for its next period."],
  upstream_rate_limited: ["The provider's own rate limit was reached.", "provider", "Slow down, get a higher limit from the provider, or add a second target."],
  upstream_connect_failed: ["The provider could not be reached.", "provider", SEE_HEALTH],
  upstream_dns_failed: ["The provider's name could not be resolved.", "provider", "Check `base_url` and this machine's DNS."],
  upstream_tls_failed: ["The provider's certificate was not accepted.", "provider", "Check `base_url`, the clock of this machine and its certificates."],
  upstream_auth_failed: ["The provider did not accept the gateway's own key.", "operator", "Check `api_key` or `api_keys` of the provider in the configuration."],
  upstream_bad_response: ["The provider's answer was not valid.", "provider", SEE_HEALTH],
  upstream_bad_encoding: ["The provider's answer was not valid UTF-8, or its compression was invalid.", "provider", SEE_HEALTH],
  upstream_empty_response: ["The provider's answer was empty.", "provider", "Retry."],
  upstream_redirect_blocked: ["The provider answered with a redirect, which is not followed.", "operator", "Check `base_url`."],
  upstream_model_not_found: ["The provider does not have that model.", "operator", "Check the model's name in the configuration."],
  upstream_server_error: ["The provider failed.", "provider", SEE_HEALTH],
  upstream_stream_truncated: ["The provider's stream ended before it was complete.", "provider", "Retry."],
  upstream_stream_reset: ["The connection to the provider broke.", "provider", "Retry."],
  upstream_invalid_frame: ["The provider sent a frame that cannot be read.", "provider", SEE_HEALTH],
  upstream_frame_too_large: ["The provider sent a frame that is too large.", "provider", SEE_HEALTH],
  response_too_large: ["The provider's answer was too large.", "provider", "Request a shorter answer, or a stream."],
  no_available_deployment: ["Every target of the model is ejected after failures, so no provider was called.", "provider", "They are probed again automatically: see Models."],
  upstream_overloaded: ["The provider was overloaded.", "provider", ASK_AGAIN],
  upstream_quota_exhausted: ["The gateway's account at the provider has no credit left.", "operator", "Add credit at the provider."],
  upstream_timeout: ["The provider took too long to start.", "provider", "Retry, or add a second target to the model."],
  stream_idle_timeout: ["The provider stopped sending in the middle of the answer.", "provider", "Retry."],
  stream_deadline_exceeded: ["The answer took longer than the total timeout, or than the caller's own `x-request-timeout`.", "provider", "Request a shorter answer, or raise the timeout."],
  internal_error: ["The gateway itself failed. That is a bug.", "gateway", "Search the gateway's log for this id, and report the bug."],
  overloaded: ["The gateway was overloaded and refused the request.", "gateway", "Retry as Retry-After says; add workers if it lasts."],
  server_shutting_down: ["The gateway was shutting down.", "gateway", "Retry."],
  ledger_unavailable: ["Accounting was unavailable, and requests that cannot be recorded are refused.", "gateway", "Check the database and the gateway's log."],
  model_unpriced: ["The model has no price, and the key or workspace has a limit that needs one.", "operator", "Give the model a price in the configuration."],
  stopped_by_operator: ["An operator stopped it.", "operator"],
};

export const CODE_NAMES = Object.keys(CODES);

const UNKNOWN: Entry = ["No further information.", null];

// A code that means something else if no provider was called.
const REJECTED: Record<string, Entry> = {
  upstream_rate_limited: ["Every available target of the model was at its configured limit, so no provider was called.", "operator", "Raise `rpm`, `tpm` or `max_streams` of the target, the provider or its keys, or add another target."],
};

// The code says more than the verdict where there is one; the verdict says how far it came.
export function explain(verdict: string, code: string | null): Explanation {
  const [what, whose, todo] = own(VERDICTS, verdict) ?? UNKNOWN;
  const detail = code === null ? undefined : ((verdict === "rejected" ? own(REJECTED, code) : undefined) ?? own(CODES, code));
  if (detail === undefined) return { what, whose, todo: todo ?? null };
  const says = verdict === "upstream_error" || verdict === "stopped" || verdict === "client_gone" ? `${what} ${detail[0]}` : detail[0];
  return { what: says, whose: detail[1] ?? whose, todo: detail[2] ?? todo ?? null };
}

function own(table: Record<string, Entry>, name: string): Entry | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

const SOURCES: Record<string, string> = {
  provider: "Reported by the provider.",
  tokenizer: "Counted by the gateway with the model's tokenizer, because the provider reported nothing.",
  estimate: "Estimated from the length of the text, because the provider reported nothing and the model's tokenizer is not available.",
};

const WRONG: Record<string, string> = {
  failed_before: "The provider failed before the first token",
  failed_after: "The provider failed after the first token",
  truncated: "The answer ended without a finish",
  cut: "The gateway cut the answer",
  caller_left: "The caller left",
};
const CHARGED: Record<string, string> = {
  nothing: "nothing is charged",
  delivered: "the prompt and what was sent of the answer is charged",
  used: "all tokens that the provider reports are charged",
  cost: "what it costs is charged, without a margin",
};

// `caller_left:used`, as the row has it.
export function explainRule(rule: string): string {
  const [what = "", charged = ""] = rule.split(":");
  if (!Object.hasOwn(WRONG, what) || !Object.hasOwn(CHARGED, charged)) return `Charge rule: ${rule}.`;
  return `${WRONG[what]}: ${CHARGED[charged]} (charge rule ${rule}).`;
}

export function explainSource(source: string | null): string {
  if (source === null) return "No billable usage.";
  return Object.hasOwn(SOURCES, source) ? SOURCES[source]! : source;
}

const FLAGS: Record<string, string> = {
  usage_anomaly: "The provider reported more than the request can have used, or invalid counts.",
  usage_cut: "The provider reported more than store.anomaly_tokens; only that many were billed.",
  max_tokens_set: "The request had no max_tokens, and its key has a budget or credit: the gateway set max_tokens to what was reserved.",
  max_tokens_lowered: "The remaining budget or credit was too small for the request's max_tokens: the gateway lowered it.",
  over_reserved: "It was charged more than was reserved on its budget or credit: the provider did not keep its limit.",
  max_tokens_clamped: "The request's max_tokens was above the longest answer of the model, or above the limit in `override`: the gateway lowered it.",
  by_chat: "The provider has no text completions for this model: it was asked for a chat completion.",
  fallback: "No target of the requested model answered, so one of its fallbacks was asked.",
  missing_done: "The stream had a finish reason but no end marker.",
  finish_inferred: "The stream had an end marker and usage, but no finish reason: it counts as complete.",
  junk_after_done: "The provider sent more after its end marker.",
};

export function explainFlag(flag: string): string {
  return Object.hasOwn(FLAGS, flag) ? FLAGS[flag]! : flag;
}

// Of a usage (core/usage.py) and of a bill (policy/billing/bill.py).
const BUCKETS: Record<string, string> = {
  input_uncached: "Prompt",
  input: "Prompt",
  cache_read: "Prompt, from the cache",
  cache_write_5m: "Prompt, written to the cache",
  cache_write: "Prompt, written to the cache",
  cache_write_1h: "Prompt, written to the cache for an hour",
  audio_input: "Audio in",
  image_input: "Images in",
  output: "Answer",
  reasoning: "Reasoning",
  audio_output: "Audio out",
  image_output: "Images out",
  searches: "Searches of the web",
  per_request: "Per request",
  per_search: "Searches of the web",
  rounding: "Rounding to a billionth",
};

export function nameOfBucket(bucket: string): string {
  return Object.hasOwn(BUCKETS, bucket) ? BUCKETS[bucket]! : bucket.replaceAll("_", " ");
}
