// The types of the API, made by scripts/generate.py: change the Python types instead.
// Amounts are exact dollars in text, moments Unix milliseconds.

export type Period = "hour" | "day" | "week" | "month";
export type Grouping = "model" | "key" | "provider";
export type TargetState = "well" | "probation" | "away";
export type Scope = "chat" | "models" | "admin" | "metrics";
export type BudgetPeriod = "day" | "week" | "month" | "total";

export interface Page<T> {
  data: T[];
  next: string | number | null;
}

export interface SessionView {
  actor: string;
  role: Role;
  permissions: Permission[];
  person: string | null;
  is_operator: boolean;
  workspace: string | null;
  csrf: string | null;
  idle_s: number | null;
  version: string;
}

export type Role = "owner" | "operator" | "billing" | "viewer" | "admin" | "member" | "key" | "metrics";

export type Permission = "session" | "self" | "document" | "people.read" | "people.change" | "people.appoint" | "workspaces.read" | "workspaces.change" | "keys.read" | "keys.change" | "keys.appoint" | "price_groups.choose" | "credit.read" | "credit.grant" | "payments.open" | "requests.read" | "requests.export" | "content.read" | "content.erase" | "usage.read" | "costs.read" | "live.read" | "live.follow" | "live.stop" | "playground" | "routing.read" | "nodes.read" | "providers.test" | "alerts.read" | "audit.read" | "accounting.check" | "settings.read" | "metrics.read";

export interface Login {
  /** The admin secret, or that of a key. */
  secret: string;
}

export interface Ended {
  ended: boolean;
}

export interface PasswordLogin {
  name: string;
  password: string;
}

export interface Acceptance {
  /** The token of the invitation. */
  invitation: string;
  password: string;
}

export interface InvitationView {
  name: string;
  role: "admin" | "billing" | "member" | "operator" | "owner" | "viewer";
  workspace_name: string | null;
  email: string | null;
  until_ms: number;
}

export interface InvitationLook {
  /** The token of the invitation. */
  invitation: string;
}

export interface PasswordChange {
  old: string;
  new: string;
}

export interface LoginOptions {
  oidc: string | null;
  failure: string | null;
}

export interface SignInAddress {
  url: string;
}

export interface OwnView {
  person: PersonView;
  workspace_name: string | null;
}

export interface PersonView {
  id: string;
  name: string;
  role: "admin" | "billing" | "member" | "operator" | "owner" | "viewer";
  workspace: string | null;
  has_password: boolean;
  email: string | null;
  is_federated: boolean;
  has_provider_role: boolean;
  created_ms: number;
  invited_until_ms: number | null;
  seen_ms: number | null;
  disabled_ms: number | null;
}

export interface OwnSessionView extends OpenSessionView {
  is_current: boolean;
}

export interface SessionsEnded {
  sessions_ended: number;
}

export interface KeyView {
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
  show_routing: boolean;
  show_cost: boolean;
  resumable: boolean;
  price_group: string | null;
  person: string | null;
  expires_ms: number | null;
  created_ms: number;
  revoked_ms: number | null;
  old_until_ms: number | null;
  used_ms: number | null;
  recent_requests: number;
  recent_price_usd: string;
}

export interface NewKeyView extends KeyView {
  secret: string;
}

export interface NewOwnKey {
  name: string;
  models?: string[] | null;
  budget_usd?: string | number | null;
  budget_period?: BudgetPeriod | null;
  expires_ms?: number | null;
}

export interface OwnCreditView {
  prepaid: boolean;
  left_usd: string | null;
  keys: number;
  budget_left_usd: string | null;
  allowed: MemberKeysView;
}

export interface MemberKeysView {
  rpm: number | null;
  tpm: number | null;
  max_streams: number | null;
  max_keys: number;
  models: string[] | null;
  budget_usd: string | null;
  budget_period: string | null;
}

export interface UsageSeries {
  since_ms: number;
  until_ms: number;
  step: "day" | "hour" | "minute" | "quarter" | "two_hours";
  by: "api" | "end_user" | "key" | "model" | "provider" | "session" | "tag" | "total";
  total: UsageView;
  groups: GroupView[];
  series: PointView[];
}

export interface UsageView {
  requests: number;
  errors: number;
  prompt_tokens: number;
  cached_tokens: number;
  cache_read_share: number | null;
  completion_tokens: number;
  reasoning_tokens: number;
  price_usd: string;
  unpriced: number;
  cost_usd?: string;
  uncosted?: number;
  margin_usd?: string;
  ttft_p50_ms: number | null;
  ttft_p95_ms: number | null;
}

export interface GroupView {
  group: string | null;
  usage: UsageView;
}

export interface PointView extends GroupView {
  at_ms: number;
}

export interface RequestView {
  /** The answer's `x-request-id`. */
  request_id: string;
  /** The id in the chunks of the answer. */
  completion_id: string | null;
  /** When it arrived. */
  at_ms: number;
  /** The workspace of its key. */
  workspace: string | null;
  /** The key that it was sent with. */
  key_id: string | null;
  /** The name of that key. */
  key_name: string | null;
  /** The API that was spoken: a dialect of chat completions, or `messages`, `responses`, `embeddings` or `completions`. */
  dialect: string | null;
  /** The model that was asked for. */
  model: string | null;
  /** The target that was tried last: `{provider}/{model}`. */
  target: string | null;
  /** Every target that was tried. */
  attempts: AttemptView[];
  /** Whether it was streamed. */
  stream: boolean;
  /** The HTTP status. 499: the caller left before there was one; 0: the process that served it died. */
  status: number;
  /** How it ended, in one word. */
  verdict: string;
  /** The code of its error. */
  error: string | null;
  /** Why the model stopped. */
  finish: string | null;
  /** Tokens of the prompt. */
  prompt_tokens: number | null;
  /** Tokens of the answer. */
  completion_tokens: number | null;
  /** The token counts that were reported. */
  usage: Record<string, number> | null;
  /** Who counted the tokens: `provider`, `tokenizer` or `estimate`. */
  usage_source: string | null;
  /** What was unusual: `usage_anomaly`, ... */
  flags: string[];
  /** The amount that was held for it. */
  held_usd: string | null;
  /** What the provider asks for it. Null: that is not known, or nothing was booked. */
  cost_usd?: string | null;
  /** The price without the cost. Null: one of them is not known. */
  margin_usd?: string | null;
  /** The version of the price list. */
  price_version: string | null;
  /** From its arrival to the first token. */
  ttft_ms: number | null;
  /** From its arrival to its end. */
  duration_ms: number;
  /** The number of pieces that the answer was sent in. */
  chunks: number | null;
  /** The time between two pieces of the answer: the median. */
  gap_p50_ms: number | null;
  /** The time between two pieces of the answer: the 99th percentile. */
  gap_p99_ms: number | null;
  /** The longest time between two pieces of the answer. */
  gap_max_ms: number | null;
  /** Bytes of the request's body. */
  bytes_in: number | null;
  /** Bytes of the answer's body. */
  bytes_out: number | null;
  /** The caller's address. */
  peer: string | null;
  /** The caller's `user-agent`. */
  client: string | null;
  /** The caller's own `x-request-id`. */
  client_id: string | null;
  /** Parameters that the provider does not take. */
  dropped: string[];
  /** The node that answered: `server.node`. Null: it is older than what is kept of nodes. */
  node: string | null;
  /** Whether its prompt and answer are stored. */
  has_content: boolean;
  /** What it is sold for, and charged. Null: the model has no price, or nothing was booked. */
  price_usd: string | null;
  /** Of a request that went wrong: the rule by which it was charged. */
  charge_rule?: string | null;
  /** The caller's user that it was made for, as the caller names it, or a digest (`[store] end_user`). */
  end_user: string | null;
  /** The session that it belongs to, as the caller names it. */
  session: string | null;
  /** The caller's tags: `name=value`. */
  tags: string[];
  /** Of a resumable stream: how often a reader came back, or came in addition, while it ran. */
  resumed: number | null;
}

export interface AttemptView {
  target: string;
  credential?: string;
  error: string | null;
  start_s?: number;
  duration_s: number;
  resends: number;
  status?: number;
  provider_code?: string;
  provider_type?: string;
  provider_param?: string;
  provider_message?: string;
  advice?: string;
  provider_request_id?: string;
  address?: string;
  via_proxy?: boolean;
  reused?: boolean;
  dns_s?: number;
  connect_s?: number;
  tls_s?: number;
  first_byte_s?: number;
}

export interface FoundRequest {
  state: "over" | "running";
  request: RequestDetail | null;
  live: LiveView | null;
}

export interface RequestDetail extends RequestView {
  /** From its arrival until its amount was held. */
  admitted_ms: number | null;
  /** From its arrival until its price was booked. */
  settled_ms: number | null;
  /** The service tier that the provider reported, else the one asked for. */
  service_tier: string | null;
  /** Of a stream: when the pieces of its answer went out. */
  strip: StripView | null;
  /** The parameters that were sent: never a text. Null: the body could not be read, or the row is older. */
  parameters: ParametersView | null;
  /** Why the gateway refused it. Null: a provider was asked, or the row is older. */
  refusal: RefusalView | null;
  /** Of a resumable stream: when nobody read it. The first 19 times, and the last if nobody came back. */
  reader_gaps: ReaderGapView[];
  /** Of a resumable stream: how often nobody read it. */
  reader_gap_count: number | null;
  /** Its place in the log: with it, `GET /api/requests` goes on from here, in either order. */
  cursor: string;
  /** The lines that add up to the price. Null: there is no price, or its rates were not kept. */
  bill: BillLineView[] | null;
  /** For the operator: the lines that add up to the cost, if it has other rates than the price. Null: there is no cost, its rates were not kept, or they are those of the price. */
  cost_bill?: BillLineView[] | null;
}

export interface StripView {
  start_ms: number;
  slot_ms: number;
  counts: number[];
}

export interface ParametersView {
  messages?: number;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  max_tokens?: number;
  n?: number;
  seed?: number;
  stop?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  logit_bias?: number;
  logprobs?: boolean;
  top_logprobs?: number;
  effort?: string;
  reasoning_tokens?: number;
  verbosity?: string;
  response_format?: string;
  modalities?: string[];
  dimensions?: number;
  tools?: string[];
  tool_count?: number;
  tool_choice?: string;
  parallel_tool_calls?: boolean;
}

export interface RefusalView {
  message: string;
  param?: string;
  budget?: string;
}

export interface ReaderGapView {
  from_ms: number;
  until_ms: number | null;
}

export interface BillLineView {
  what: string;
  tokens: number | null;
  count: number | null;
  usd_per_million: string | null;
  amount_usd: string;
}

export interface LiveView {
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
  price_usd: string | null;
  cost_usd?: string | null;
  margin_usd?: string | null;
  progress_ms: number | null;
  first_ms: number | null;
  last_ms: number | null;
  is_being_stopped: boolean;
  end_user: string | null;
  session: string | null;
  readers: number | null;
  reader_gap_count: number | null;
  away_since_ms: number | null;
  node: string | null;
}

export interface InvitedView extends PersonView {
  invitation: string;
}

export interface NewPerson {
  name: string;
  role: "admin" | "billing" | "member" | "operator" | "owner" | "viewer";
  workspace?: string | null;
  email?: string | null;
}

export interface PersonPatch {
  role?: "admin" | "billing" | "member" | "operator" | "owner" | "viewer";
  workspace?: string | null;
  email?: string | null;
  disabled?: boolean;
}

export interface OpenSessionView {
  id: string;
  person: string | null;
  key: string | null;
  created_ms: number;
  used_ms: number;
  address: string | null;
  browser: string | null;
}

export interface NamedSessionView extends OpenSessionView {
  name: string | null;
  is_current: boolean;
}

export interface Workspace {
  id: string;
  name: string;
  prepaid: boolean;
  created_ms: number;
  price_group: string | null;
}

export interface NewWorkspace {
  name: string;
  prepaid?: boolean;
  price_group?: string | null;
}

export interface WorkspacePatch {
  name?: string;
  prepaid?: boolean;
  price_group?: string | null;
}

export interface MemberKeysPatch {
  rpm?: number | null;
  tpm?: number | null;
  max_streams?: number | null;
  /** Of one member, in force at the same time. 0: members make none. */
  max_keys?: number;
  models?: string[] | null;
  budget_usd?: string | number | null;
  budget_period?: BudgetPeriod | null;
}

export interface NewKey {
  rpm?: number | null;
  tpm?: number | null;
  max_streams?: number | null;
  name: string;
  workspace?: string | null;
  scopes?: Scope[];
  models?: string[] | null;
  dialect?: string | null;
  budget_usd?: string | number | null;
  budget_period?: BudgetPeriod | null;
  log_content?: boolean;
  show_routing?: boolean;
  show_cost?: boolean;
  resumable?: boolean;
  price_group?: string | null;
  person?: string | null;
  expires_ms?: number | null;
}

export interface KeyPatch {
  rpm?: number | null;
  tpm?: number | null;
  max_streams?: number | null;
  name?: string;
  scopes?: Scope[];
  models?: string[] | null;
  dialect?: string | null;
  budget_usd?: string | number | null;
  budget_period?: BudgetPeriod | null;
  log_content?: boolean;
  show_routing?: boolean;
  show_cost?: boolean;
  resumable?: boolean;
  price_group?: string | null;
  person?: string | null;
  expires_ms?: number | null;
}

export interface Rotation {
  grace_s?: number;
}

export interface Erased {
  requests: number;
  contents: number;
}

export interface BalanceView {
  workspace: string;
  name: string;
  prepaid: boolean;
  granted_usd: string;
  spent_usd: string;
  held_usd: string;
  balance_usd: string;
}

export interface Credit {
  /** A workspace, by name or id. */
  workspace: string;
  /** Exact US dollars, as text or as a number. */
  amount_usd: string | number;
  note?: string;
}

export interface LedgerView {
  seq: number;
  at_ms: number;
  kind: "charge" | "credit" | "extension" | "reservation";
  workspace: string;
  key_id: string | null;
  key_name: string | null;
  request_id: string | null;
  amount_usd: string;
  released_usd: string | null;
  price_usd: string | null;
  cost_usd?: string | null;
  margin_usd?: string | null;
  note: string | null;
}

export interface PaymentView {
  id: string;
  workspace: string;
  amount_usd: string;
  status: string;
  session_id: string | null;
  created_ms: number;
  paid_ms: number | null;
}

export interface NewPaymentView extends PaymentView {
  url: string | null;
}

export interface NewPayment {
  /** A workspace, by name or id. */
  workspace: string;
  /** Exact US dollars, as text or as a number. */
  amount_usd: string | number;
}

export interface ContentView {
  request_id: string;
  at_ms: number;
  prompt: string;
  answer: string;
  upstream_frames: FrameView[];
  caller_frames: FrameView[];
  is_cut: boolean;
}

export interface FrameView {
  after_ms: number;
  text: string;
}

export interface Deleted {
  deleted: boolean;
}

export interface Overview {
  period: Period;
  since_ms: number;
  until_ms: number;
  step_ms: number;
  by: Grouping;
  total: UsageView;
  before: UsageView;
  groups: NamedGroup[];
  series: StepView[];
  group_series: PointView[];
  top_keys: NamedGroup[];
  refused: RefusedView | null;
  open_streams: number;
  has_requests: boolean;
}

export interface NamedGroup extends GroupView {
  name: string | null;
}

export interface StepView {
  at_ms: number;
  usage: UsageView;
}

export interface RefusedView {
  total: number;
  before: number;
  series: RefusedStep[];
}

export interface RefusedStep {
  at_ms: number;
  requests: number;
}

export interface LiveEvent {
  at_ms: number;
  total: number;
  data: LiveView[];
}

export interface PlaygroundView {
  keys: PlayKeyView[];
  models: string[];
  default_model: string | null;
  dialects: string[];
}

export interface PlayKeyView {
  id: string;
  name: string;
  workspace: string;
  models: string[] | null;
  dialect: string | null;
  log_content: boolean;
}

export interface PlayedChat {
  /** The id of the key to chat as. */
  key: string;
  /** A dialect of chat completions, or `messages` or `responses`. Default: the key's dialect. */
  dialect?: string | null;
  /** As for `/v1/chat/completions`, or for `/v1/messages` or `/v1/responses`. */
  body: unknown;
}

export interface ProviderView {
  name: string;
  kind: string;
  credentials: CredentialView[];
  targets: TargetView[];
  limits: TargetLimitView[];
}

export interface CredentialView {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  ejections: number;
  error: string | null;
  error_at_ms: number | null;
  name: string;
  weight: number;
}

export interface TargetView {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  ejections: number;
  error: string | null;
  error_at_ms: number | null;
  model: string;
  credential: string;
  is_in_alias: boolean;
  wire: "chat" | "converse" | "gemini" | "messages" | "responses";
  is_limited: boolean;
  ttft_s: number | null;
  running: number;
}

export interface TargetLimitView {
  scope: "credential" | "provider" | "target";
  name: string;
  rpm: number | null;
  tpm: number | null;
  max_streams: number | null;
  requests: number | null;
  tokens: number | null;
  streams: number | null;
}

export interface ProviderTest {
  provider: string;
  at_ms: number;
  results: ReachedView[];
}

export interface ReachedView {
  credential: string;
  outcome: "fail" | "ok" | "warn";
  message: string;
  advice: string | null;
}

export interface NodeView {
  instance: string;
  node: string;
  is_this: boolean;
  started_ms: number | null;
  reported_ms: number | null;
  version: string | null;
  requests: number | null;
  targets: NodeTargetView[];
  credentials: NodeCredentialView[];
  left_out: number;
}

export interface NodeTargetView {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  ejections: number;
  error: string | null;
  error_at_ms: number | null;
  model: string;
  credential: string;
  is_limited: boolean;
  ttft_s: number | null;
  running: number;
}

export interface NodeCredentialView {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  ejections: number;
  error: string | null;
  error_at_ms: number | null;
  name: string;
}

export interface Models {
  data: ModelView[];
}

export interface ModelView {
  id: string;
  is_default: boolean;
  strategy: "cheapest" | "fastest" | "least_busy" | "priority" | "weighted";
  targets: ModelTargetView[];
  fallbacks: string[];
  context_fallbacks: string[];
  content_filter_fallbacks: string[];
  source: "built-in" | "config" | "list";
  owner: "group" | "model" | "target";
  owners: string[];
  rates: RatesView | null;
}

export interface ModelTargetView {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  provider: string;
  model: string;
  weight: number | null;
  stage: number;
  wire: "chat" | "converse" | "gemini" | "messages" | "responses";
  is_limited: boolean;
  ttft_s: number | null;
}

export interface RatesView {
  input_usd: string;
  output_usd: string;
  cache_read_usd?: string;
  cache_write_usd?: string;
  cache_write_1h_usd?: string;
  audio_input_usd?: string;
  audio_output_usd?: string;
  image_input_usd?: string;
  image_output_usd?: string;
  reasoning_usd?: string;
  per_request_usd?: string;
  per_search_usd?: string;
  tiers?: TierView[];
  services?: Record<string, RatesView>;
}

export interface TierView {
  above_prompt_tokens: number;
  rates: RatesView;
}

export interface Prices {
  version: string;
  currency: string;
  unit: string;
  data: PriceView[];
  next: number | null;
}

export interface PriceView {
  provider: string;
  model: string;
  source: "built-in" | "config" | "list";
  owner: "group" | "model" | "target";
  owners: string[];
  context_window: number | null;
  rates: RatesView | null;
}

export interface AuditView {
  seq: number;
  at_ms: number;
  actor: string;
  workspace: string | null;
  action: string;
  object: string;
  object_name: string | null;
  actor_name: string | null;
  detail: Record<string, unknown>;
  names: Record<string, string>;
}

export interface Verification {
  is_as_written: boolean;
  first_broken_seq: number | null;
}

export interface SumCheck {
  agrees: boolean;
  workspaces: number;
  rows: number;
  faults: FaultView[];
}

export interface FaultView {
  object: string;
  what: string;
  kept_usd: string | null;
  found_usd: string | null;
}

export interface AlertView {
  seq: number;
  id: string;
  at_ms: number;
  kind: string;
  workspace: string | null;
  data: Record<string, unknown>;
  deliveries: DeliveryView[];
}

export interface DeliveryView {
  webhook: string;
  state: "delivered" | "given_up" | "waiting";
  attempts: number;
  next_ms: number | null;
  delivered_ms: number | null;
  error: string | null;
}

export interface Settings {
  version: string;
  started_ms: number;
  instance: string;
  file: string | null;
  store: string;
  sections: Section[];
  reloads: Reload[];
}

export interface Section {
  name: string;
  lines: Line[];
}

export interface Line {
  path: string;
  text: string;
  value: unknown;
  origin: "default" | "environment" | "file" | "gateway" | "option" | "secret_command" | "secret_file" | null;
  about: string;
  is_default: boolean;
}

export interface Reload {
  at_ms: number;
  cause: "request" | "secret";
  is_taken: boolean;
  problems: string[];
  changes: Change[];
  more_changes: number;
}

export interface Change {
  path: string;
  what: "added" | "changed" | "moved" | "removed";
  before: string;
  after: string;
  needs_restart: boolean;
}
