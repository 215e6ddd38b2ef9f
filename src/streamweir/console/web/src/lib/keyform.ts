// The form of a key: what its fields hold as text, and what is sent of them. Pure. A change sends only what differs;
// null takes a limit away. The server has the last word on what makes sense.
import { count } from "./format";
import { KEY_VARIABLE, quoteForShell, skeleton, snippet } from "./snippet";
import { LIMITS, type Limit, type LimitName } from "./limits";
import type { KeyView as Key } from "./types";

export interface KeyForm extends Record<LimitName, string> {
  name: string;
  workspace: string;
  scopes: string[];
  models: string; // one per line
  dialect: string;
  budget_usd: string;
  budget_period: string;
  log_content: boolean;
  show_routing: boolean;
  show_cost: boolean;
  price_group: string;
  expires: string; // as <input type="datetime-local"> has it, in the reader's zone
}

export const NEW_KEY: KeyForm = {
  name: "",
  workspace: "",
  scopes: ["chat", "models"],
  models: "",
  dialect: "",
  ...eachLimit(() => ""),
  budget_usd: "",
  budget_period: "month",
  log_content: false,
  show_routing: false,
  show_cost: false,
  price_group: "",
  expires: "",
};

// Scopes that only owners and operators grant.
export const APPOINTED = ["admin", "metrics"];

export type Members = Record<string, unknown>;
export type FormProblems = Partial<Record<string, string>>;

export function formOf(key: Key): KeyForm {
  const text = (value: number | null) => (value === null ? "" : String(value));
  return {
    name: key.name,
    workspace: key.workspace,
    scopes: key.scopes,
    models: (key.models ?? []).join("\n"),
    dialect: key.dialect ?? "",
    ...eachLimit(({ name }) => text(key[name])),
    budget_usd: key.budget_usd ?? "",
    budget_period: key.budget_period ?? "month",
    log_content: key.log_content,
    show_routing: key.show_routing,
    show_cost: key.show_cost,
    price_group: key.price_group ?? "",
    expires: key.expires_ms === null ? "" : localMoment(key.expires_ms),
  };
}

// All that the form says, in the words of the API. Empty is null.
function membersOf(form: KeyForm): { members: Members; problems: FormProblems } {
  const problems: FormProblems = {};
  const whole = ({ name, most }: Limit) => {
    const text = form[name].trim();
    if (!text) return null;
    const value = Number(text);
    if (!Number.isSafeInteger(value) || value < 1 || value > most) problems[name] = `A whole number from 1 to ${count(most)}, or empty.`;
    return value;
  };
  const models = form.models
    .split(/[\n,]/)
    .map((each) => each.trim())
    .filter(Boolean);
  const budget = form.budget_usd.trim();
  if (budget && !isAmount(budget)) problems.budget_usd = "An amount in dollars, such as 25.50.";
  const expires = form.expires ? new Date(form.expires).getTime() : null;
  if (expires !== null && Number.isNaN(expires)) problems.expires_ms = "Enter a date and a time.";
  if (!form.name.trim()) problems.name = "Enter a name.";
  if (!form.scopes.length) problems.scopes = "Select at least one.";
  else if (form.scopes.includes("metrics") && form.scopes.length > 1) problems.scopes = "The scope metrics goes with no other.";
  const members: Members = {
    name: form.name.trim(),
    scopes: form.scopes,
    models: models.length ? models : null,
    dialect: form.dialect || null,
    ...eachLimit(whole),
    budget_usd: budget || null,
    budget_period: budget ? form.budget_period : null,
    log_content: form.log_content,
    show_routing: form.show_routing,
    show_cost: form.show_cost,
    price_group: form.price_group.trim() || null,
    expires_ms: expires,
  };
  return { members, problems };
}

export function newKeyBody(form: KeyForm): { members: Members; problems: FormProblems } {
  const { members, problems } = membersOf(form);
  return { members: form.workspace ? { ...members, workspace: form.workspace } : members, problems };
}

// What a person chooses for a key of its own. `period`: the one that its workspace prescribes.
export function ownKeyBody(form: KeyForm, period: string | null): { members: Members; problems: FormProblems } {
  const { members, problems } = membersOf(form);
  const { name, models, budget_usd, budget_period, expires_ms } = members;
  return { members: { name, models, budget_usd, budget_period: period === null ? budget_period : null, expires_ms }, problems };
}

// What is different. An expiry that was not touched is not sent: the form knows minutes, the key milliseconds.
export function patchOf(key: Key, form: KeyForm): { members: Members; problems: FormProblems } {
  const { members, problems } = membersOf(form);
  const before = membersOf(formOf(key)).members;
  const changed = Object.entries(members).filter(([name, value]) => !isSame(value, before[name]));
  return { members: Object.fromEntries(changed), problems };
}

function eachLimit<T>(value: (limit: Limit) => T): Record<LimitName, T> {
  return Object.fromEntries(LIMITS.map((limit) => [limit.name, value(limit)])) as Record<LimitName, T>;
}

function isSame(one: unknown, two: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(two);
}

// Dollars as the API takes them: digits, a point, nine places at the most. `isSigned`: a correction may be negative.
export function isAmount(text: string, isSigned = false): boolean {
  return (isSigned ? /^-?\d{1,12}(\.\d{1,9})?$/ : /^\d{1,12}(\.\d{1,9})?$/).test(text.trim());
}

// The field that a `param` of the API speaks of: `models[0]` is `models`; amounts are stored by another name.
export function fieldOf(param: string | null): string | null {
  const name = param?.replace(/^\$\.?/, "").split(/[.[]/)[0] || null;
  return name?.replace(/_nano$/, "_usd") ?? null;
}

export function localMoment(ms: number): string {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export type KeyState = "Active" | "Revoked" | "Expired";

export function stateOf(key: Key, now: number): KeyState {
  if (key.revoked_ms !== null) return "Revoked";
  return key.expires_ms !== null && key.expires_ms <= now ? "Expired" : "Active";
}

const AGENT = "sim/agent"; // the simulator's script for coding agents

// A model for an agent, of those that there are: not the embedded one, which has no tools, nor a script for anything else.
export function agentModel(models: readonly string[]): string {
  return models.find((each) => !/^(local|sim)\//.test(each)) ?? (models.includes(AGENT) ? AGENT : "MODEL");
}

// Lines to try a key with, for a shell.
export function claudeOf(origin: string, secret: string, model: string): string {
  const settings = [
    ["ANTHROPIC_BASE_URL", origin],
    ["ANTHROPIC_AUTH_TOKEN", secret],
    ["ANTHROPIC_MODEL", model],
    ["ANTHROPIC_DEFAULT_HAIKU_MODEL", model],
  ] as const;
  return [...settings.map(([name, value]) => `export ${name}=${quoteForShell(value)}`), "claude"].join("\n");
}

export function codexOf(origin: string, secret: string, model: string): string {
  const provider = `{name="Streamweir", base_url=${JSON.stringify(`${origin}/v1`)}, env_key="${KEY_VARIABLE}", wire_api="responses"}`;
  return [
    `export ${KEY_VARIABLE}=${quoteForShell(secret)}`,
    `codex --model ${quoteForShell(model)} -c model_provider=streamweir \\`,
    `  -c ${quoteForShell(`model_providers.streamweir=${provider}`)}`,
  ].join("\n");
}

export function curlOf(origin: string, secret: string, model: string): string {
  const asking = { origin, dialect: null, body: skeleton(model, true) };
  return `export ${KEY_VARIABLE}=${quoteForShell(secret)}\n${snippet("curl", asking)}`;
}
