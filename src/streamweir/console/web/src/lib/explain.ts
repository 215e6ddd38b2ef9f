// What a verdict and an error code mean, whose affair it is and what to do, in plain words. The codes are those of
// core/errors.py, the verdicts those of core/verdict.py; one that is not here is shown as it stands.

export type Whose = "caller" | "provider" | "gateway" | "operator" | null;

export interface Explanation {
  what: string;
  whose: Whose;
  todo: string | null;
}

export const WHOSE: Record<Exclude<Whose, null>, string> = {
  caller: "The caller's affair",
  provider: "The provider's fault",
  gateway: "The gateway's fault",
  operator: "The operator's affair",
};

type Entry = readonly [what: string, whose: Whose, todo?: string];

const VERDICTS: Record<string, Entry> = {
  completed: ["The answer is whole: the model ended it by itself.", null],
  length: ["The answer ended at its limit of tokens, not where the model would have ended it.", "caller", "Raise max_tokens (or max_completion_tokens) if the rest is wanted."],
  filtered: ["The provider's content filter cut the answer.", "provider", "See the provider's rules for what it filters, or ask another model."],
  truncated: ["The provider's stream broke off without a proper end. The caller was told so by an error frame.", "provider", "Ask again. If one target does it often, look at its health under Models."],
  idle_timeout: ["The provider fell silent in the middle of the answer.", "provider", "Ask again; `idle_s` says how long a silence is borne."],
  first_token_timeout: ["The provider took too long to begin its answer.", "provider", "Ask again, or give the model a second target; `first_event_s` says how long is waited."],
  client_gone: ["The caller closed the connection before the answer was whole.", "caller", "Nothing, if that was meant. Else look at the timeouts of the client and of proxies before the gateway."],
  upstream_error: ["The provider refused or failed, and no other target was left to try.", "provider", "Look at the attempts below and at the target's health under Models."],
  rejected: ["The request was refused before any model was asked.", "caller", "Mend what the code names and ask again."],
  deadline: ["The answer took longer than a request may take.", "provider", "Ask for less, or raise `total_s`."],
  stopped: ["It was ended while it ran.", "operator"],
  shutdown: ["The gateway was shutting down and did not wait any longer.", "gateway", "Ask again. `drain_s` says how long open streams may go on."],
  gateway_fault: ["The gateway itself failed. That is a bug.", "gateway", "Find this id in the gateway's log: the reason stands there. Please report it."],
  orphaned: ["The process that served it died. What it had delivered by then was settled by estimate.", "gateway", "Find out why the process died: its log, the system's log, its memory."],
};

const ASK_AGAIN = "Ask again after a while.";
const SEE_HEALTH = "Look at the target's health under Models; the provider's own status page may say more.";

const CODES: Record<string, Entry> = {
  invalid_json: ["The body was not JSON.", "caller", "Send a JSON object, in UTF-8."],
  duplicate_key: ["An object in the body had the same member twice.", "caller", "Send each member once."],
  json_too_deep: ["The body was nested too deeply.", "caller", "Send a flatter body."],
  invalid_type: ["A member of the body had the wrong type.", "caller", "The answer named it in `param`."],
  invalid_value: ["A member of the body had a value that cannot be.", "caller", "The answer named it in `param`."],
  missing_required_parameter: ["A member that is needed was missing.", "caller", "The answer named it in `param`."],
  unknown_parameter: ["The body had a member that nobody knows.", "caller", "The answer named it in `param`."],
  context_length_exceeded: ["The prompt was longer than the model can read.", "caller", "Shorten it, or ask a model with a longer context."],
  content_filter: ["The provider's filter refused the prompt.", "caller", "See the provider's rules."],
  idempotency_key_reused: ["The Idempotency-Key had been used with another body.", "caller", "Take a new one for a new request."],
  idempotency_in_progress: ["The first request with this Idempotency-Key was still running.", "caller", "Wait for it."],
  idempotency_completed: ["A request with this Idempotency-Key was answered already.", "caller", "Its answer is not kept: take a new key to ask again."],
  missing_api_key: ["There was no API key.", "caller", "Send `Authorization: Bearer <key>`."],
  invalid_api_key: ["Nobody knows that API key.", "caller", "Look it up under Keys."],
  expired_api_key: ["The API key has expired.", "caller", "Make a new one, or change its end under Keys."],
  key_revoked: ["The API key was revoked, which ends its streams.", "operator", "Use another key."],
  insufficient_permissions: ["The key may not do that.", "caller", "Its scopes stand under Keys."],
  ip_not_allowed: ["The caller's address is not among those the key may be used from.", "caller"],
  model_not_found: ["There is no such model, or the key may not use it.", "caller", "What there is stands under Models; what a key may use, under Keys."],
  unknown_url: ["There is nothing at that address.", "caller", "Chat is at /v1/chat/completions."],
  method_not_allowed: ["That address does not know the method.", "caller"],
  unsupported_media_type: ["The body did not say that it is JSON.", "caller", "Send `Content-Type: application/json`."],
  unsupported_content_encoding: ["The body was compressed, which is not understood.", "caller", "Send it as it is."],
  request_timeout: ["The body took too long to arrive.", "caller", "Look at the caller's connection."],
  request_too_large: ["The body was larger than is allowed.", "caller", "Send less, or raise the limit in the configuration."],
  headers_too_large: ["The headers were larger than is allowed.", "caller", "Send less."],
  rate_limit_exceeded: ["The key's limit of requests or tokens per minute was reached.", "caller", "Slow down as Retry-After says, or raise the limit under Keys."],
  concurrency_limit_exceeded: ["The key had as many streams open as it may.", "caller", "Wait for one to end, or raise the limit under Keys."],
  insufficient_quota: ["The workspace had no credit left for it.", "operator", "Top it up under Workspaces."],
  budget_exceeded: ["The key's budget was used up.", "operator", "Raise it under Keys, or wait for its next period."],
  upstream_rate_limited: ["The provider's own rate limit was reached.", "provider", "Slow down, ask the provider for more, or give the model a second target."],
  upstream_connect_failed: ["The provider could not be reached.", "provider", SEE_HEALTH],
  upstream_dns_failed: ["The provider's name could not be resolved.", "provider", "Check `base_url` and the name service of this machine."],
  upstream_tls_failed: ["The provider's certificate was not accepted.", "provider", "Check `base_url`, the clock of this machine and its certificates."],
  upstream_auth_failed: ["The provider did not accept the gateway's own key.", "operator", "Check `api_key` of the provider in the configuration."],
  upstream_bad_response: ["The provider's answer was not what it should be.", "provider", SEE_HEALTH],
  upstream_bad_encoding: ["The provider's answer was not valid UTF-8 or badly compressed.", "provider", SEE_HEALTH],
  upstream_empty_response: ["The provider's answer was empty.", "provider", "Ask again."],
  upstream_redirect_blocked: ["The provider led to another address, which is never followed.", "operator", "Check `base_url`."],
  upstream_model_not_found: ["The provider does not have that model.", "operator", "Check the model's name in the configuration."],
  upstream_server_error: ["The provider failed.", "provider", SEE_HEALTH],
  upstream_stream_truncated: ["The provider's stream ended without its proper end.", "provider", "Ask again."],
  upstream_stream_reset: ["The connection to the provider broke.", "provider", "Ask again."],
  upstream_invalid_frame: ["The provider sent a frame that cannot be read.", "provider", SEE_HEALTH],
  upstream_frame_too_large: ["The provider sent a frame that is too large.", "provider", SEE_HEALTH],
  response_too_large: ["The provider's answer was larger than is allowed.", "provider", "Ask for less, or for a stream."],
  no_available_deployment: ["Every target of the model was taken out for its failures, so nobody was asked.", "provider", "They are tried again by and by: see Models."],
  upstream_overloaded: ["The provider was overloaded.", "provider", ASK_AGAIN],
  upstream_quota_exhausted: ["The gateway's account at the provider has no credit left.", "operator", "Pay the provider."],
  upstream_timeout: ["The provider took too long to begin.", "provider", "Ask again, or give the model a second target."],
  stream_idle_timeout: ["The provider fell silent in the middle of the answer.", "provider", "Ask again."],
  stream_deadline_exceeded: ["The answer took longer than a request may take.", "provider", "Ask for less, or raise `total_s`."],
  internal_error: ["The gateway itself failed. That is a bug.", "gateway", "Find this id in the gateway's log, and report it."],
  overloaded: ["The gateway had more to do than it can bear, and turned the request away.", "gateway", "Ask again as Retry-After says; add workers if it lasts."],
  server_shutting_down: ["The gateway was shutting down.", "gateway", "Ask again."],
  ledger_unavailable: ["The books could not be written, and nothing is served that cannot be booked.", "gateway", "Look at the database and the gateway's log."],
  model_unpriced: ["The model has no price, and the key or workspace has a limit that needs one.", "operator", "Give the model a price in the configuration."],
  stopped_by_operator: ["An operator ended it.", "operator"],
};

const UNKNOWN: Entry = ["Nothing more is known of it.", null];

// The code says more than the verdict where there is one; the verdict says how far it came.
export function explain(verdict: string, code: string | null): Explanation {
  const [what, whose, todo] = own(VERDICTS, verdict) ?? UNKNOWN;
  const detail = code === null ? undefined : own(CODES, code);
  if (detail === undefined) return { what, whose, todo: todo ?? null };
  const says = verdict === "upstream_error" || verdict === "stopped" || verdict === "client_gone" ? `${what} ${detail[0]}` : detail[0];
  return { what: says, whose: detail[1] ?? whose, todo: detail[2] ?? todo ?? null };
}

function own(table: Record<string, Entry>, name: string): Entry | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

const SOURCES: Record<string, string> = {
  provider: "Reported by the provider.",
  tokenizer: "Counted here with the model's own tokenizer, for the provider reported nothing.",
  estimate: "Estimated from the length of the text, for the provider reported nothing and the model's tokenizer is not at hand.",
};

export function explainSource(source: string | null): string {
  if (source === null) return "Nothing was used that is billed.";
  return Object.hasOwn(SOURCES, source) ? SOURCES[source]! : source;
}

const FLAGS: Record<string, string> = {
  usage_anomaly: "The provider reported more than the request can have used, or counts that cannot be counts.",
  usage_cut: "The provider reported more than store.anomaly_tokens; only so many were billed.",
  max_tokens_set: "The request had no limit of its answer, and the money behind its key has one: the provider was asked for no longer an answer than was reserved for.",
  max_tokens_lowered: "There was too little money left for the limit that the request had: the provider was asked for a shorter answer.",
  missing_done: "The stream had a finish reason, but not the end marker that belongs behind it.",
  junk_after_done: "The provider went on sending after its end marker.",
};

export function explainFlag(flag: string): string {
  return Object.hasOwn(FLAGS, flag) ? FLAGS[flag]! : flag;
}

// Of a usage (core/usage.py) and of a bill (policy/bill.py).
const BUCKETS: Record<string, string> = {
  input_uncached: "Prompt",
  input: "Prompt",
  cache_read: "Prompt, from the cache",
  cache_write_5m: "Prompt, written to the cache",
  cache_write: "Prompt, written to the cache",
  cache_write_1h: "Prompt, written to the cache for an hour",
  audio_input: "Audio in",
  output: "Answer",
  reasoning: "Reasoning",
  audio_output: "Audio out",
  per_request: "The request itself",
  rounding: "Rounding to a billionth",
};

export function nameOfBucket(bucket: string): string {
  return Object.hasOwn(BUCKETS, bucket) ? BUCKETS[bucket]! : bucket.replaceAll("_", " ");
}
