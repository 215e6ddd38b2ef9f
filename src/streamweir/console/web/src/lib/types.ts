// What the API says, as docs/api.md has it. Amounts are exact dollars in text, moments Unix milliseconds.

export type Period = "hour" | "day" | "week" | "month";
export type Grouping = "model" | "key" | "provider";

export interface Page<T> {
  data: T[];
  next: string | number | null;
}

export interface Session {
  actor: string;
  is_operator: boolean;
  workspace: string | null;
  csrf: string | null;
  idle_s: number | null;
  version: string;
}

export interface Usage {
  requests: number;
  errors: number;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cost_usd: string;
  unpriced: number;
  ttft_p50_ms: number | null;
  ttft_p95_ms: number | null;
}

export interface UsageGroup {
  group: string | null;
  name: string | null;
  usage: Usage;
}

export interface UsagePoint {
  at_ms: number;
  usage: Usage;
}

export interface Overview {
  period: Period;
  since_ms: number;
  until_ms: number;
  step_ms: number;
  by: Grouping;
  total: Usage;
  before: Usage;
  groups: UsageGroup[];
  series: UsagePoint[];
  group_series: (UsagePoint & { group: string | null })[];
  open_streams: number;
  has_requests: boolean;
}

export interface Live {
  request_id: string;
  at_ms: number;
  workspace: string;
  key_id: string;
  key_name: string;
  dialect: string;
  model: string;
  target: string | null;
  stream: boolean;
  held_usd: string;
  prompt_tokens: number;
  output_tokens: number;
  progress_ms: number | null;
  first_ms: number | null;
  last_ms: number | null;
  cost_usd: string | null;
  is_being_stopped: boolean;
  node: string | null;
}

export interface LiveSnapshot {
  at_ms: number;
  total: number;
  data: Live[];
}

export interface Attempt {
  target: string;
  error: string | null;
  start_s?: number;
  duration_s: number;
  resends: number;
}

export interface RequestRow {
  request_id: string;
  completion_id: string | null;
  at_ms: number;
  workspace: string | null;
  key_id: string | null;
  key_name: string | null;
  dialect: string | null;
  model: string | null;
  target: string | null;
  attempts: Attempt[];
  stream: boolean;
  status: number;
  verdict: string;
  error: string | null;
  finish: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  usage: Record<string, number> | null;
  usage_source: string | null;
  flags: string[];
  held_usd: string | null;
  cost_usd: string | null;
  price_version: string | null;
  ttft_ms: number | null;
  duration_ms: number;
  chunks: number | null;
  gap_p50_ms: number | null;
  gap_p99_ms: number | null;
  gap_max_ms: number | null;
  bytes_in: number | null;
  bytes_out: number | null;
  peer: string | null;
  client: string | null;
  client_id: string | null;
  dropped: string[];
  node: string | null;
  has_content: boolean;
}

export interface Strip {
  start_ms: number;
  slot_ms: number;
  counts: number[];
}

export interface BillLine {
  what: string;
  tokens: number | null;
  usd_per_million: string | null;
  amount_usd: string;
}

export interface RequestDetail extends RequestRow {
  admitted_ms: number | null;
  settled_ms: number | null;
  service_tier: string | null;
  strip: Strip | null;
  bill: BillLine[] | null;
}

export interface FoundRequest {
  state: "over" | "running";
  request: RequestDetail | null;
  live: Live | null;
}

export interface Frame {
  after_ms: number;
  text: string;
}

export interface Content {
  request_id: string;
  at_ms: number;
  prompt: string;
  answer: string;
  upstream_frames: Frame[];
  caller_frames: Frame[];
  is_cut: boolean;
}

export interface Key {
  id: string;
  workspace: string;
  name: string;
  origin: string;
  last4: string;
  scopes: string[];
  models: string[] | null;
  dialect: string | null;
  rpm: number | null;
  tpm: number | null;
  max_streams: number | null;
  budget_usd: string | null;
  budget_period: string | null;
  spent_usd: string | null;
  held_usd: string | null;
  log_content: boolean;
  expires_ms: number | null;
  created_ms: number;
  revoked_ms: number | null;
  old_until_ms: number | null;
}

export interface NewKey extends Key {
  secret: string;
}

export interface Workspace {
  id: string;
  name: string;
  prepaid: boolean;
  created_ms: number;
}

export interface Balance {
  workspace: string;
  name: string;
  prepaid: boolean;
  granted_usd: string;
  spent_usd: string;
  held_usd: string;
  balance_usd: string;
}

export interface LedgerRow {
  seq: number;
  at_ms: number;
  kind: string;
  workspace: string;
  key_id: string | null;
  request_id: string | null;
  amount_usd: string;
  cost_usd: string | null;
  note: string | null;
}

export type TargetState = "well" | "probation" | "away";

export interface Target {
  model: string;
  is_in_alias: boolean;
  state: TargetState;
  is_limited: boolean;
  away_for_s: number;
  ttft_s: number | null;
  ejections: number;
}

export interface Provider {
  name: string;
  kind: string;
  targets: Target[];
}

export interface Rates {
  input_usd: string;
  output_usd: string;
  cache_read_usd?: string;
  cache_write_usd?: string;
  cache_write_1h_usd?: string;
  audio_input_usd?: string;
  audio_output_usd?: string;
  reasoning_usd?: string;
  per_request_usd?: string;
  tiers?: { above_prompt_tokens: number; rates: Rates }[];
  services?: Record<string, Rates>;
}

export interface Model {
  id: string;
  is_default: boolean;
  targets: {
    provider: string;
    model: string;
    weight: number | null;
    state: TargetState;
    away_for_s: number;
    ttft_s: number | null;
  }[];
  source: string;
  rates: Rates | null;
}

export interface Price {
  provider: string;
  model: string;
  source: string;
  context_window: number | null;
  rates: Rates | null;
}

export interface Prices {
  version: string;
  currency: string;
  unit: string;
  data: Price[];
  next: number | null;
}

export interface Settings {
  version: string;
  started_ms: number;
  instance: string;
  file: string | null;
  store: string;
  sections: { name: string; entries: { path: string; value: string; is_secret: boolean; is_set: boolean }[] }[];
}

export interface AuditRow {
  seq: number;
  at_ms: number;
  actor: string;
  workspace: string | null;
  action: string;
  object: string;
  detail: Record<string, unknown>;
}

export interface PlaygroundChoices {
  keys: {
    id: string;
    name: string;
    workspace: string;
    models: string[] | null;
    dialect: string | null;
    log_content: boolean;
  }[];
  models: string[];
  default_model: string | null;
  dialects: string[];
}
