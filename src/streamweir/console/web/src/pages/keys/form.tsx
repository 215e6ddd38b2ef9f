// A key made or changed. What the server objects to is shown at the field it speaks of.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, patch, post, type ApiError } from "../../lib/api";
import { APPOINTED, fieldOf, formOf, NEW_KEY, newKeyBody, ownKeyBody, patchOf, type FormProblems, type KeyForm } from "../../lib/keyform";
import { DIALECTS } from "../../lib/apis";
import { asError, useLoad } from "../../lib/load";
import { may, seesAll } from "../../lib/permission";
import { LIMITS, type LimitName } from "../../lib/limits";
import type { KeyView as Key, NewKeyView as NewKey, OwnCreditView } from "../../lib/types";
import { Button, Dialog, Field, Problem, Select } from "../../ui/parts";
import { budgetOf } from "../overview/credit";
import { WorkspaceSelect, type Workspaces } from "../../ui/workspaces";

const PERIODS = [
  ["day", "per day"],
  ["week", "per week"],
  ["month", "per month"],
  ["total", "in total"],
] as const;
const SCOPES = [
  ["chat", "send requests to models, with any API"],
  ["models", "list models"],
  ["admin", "manage the workspace, through the API and the console"],
  ["metrics", "read /metrics, those about money too, and nothing else"],
] as const;

export function CreateKey(props: { workspaces: Workspaces; workspace: string; onDone: (key: NewKey) => void; onClose: () => void }) {
  const start = { ...NEW_KEY, workspace: props.workspace };
  return (
    <FormDialog
      title="New key"
      action="Create key"
      start={start}
      workspaces={props.workspaces}
      bodyOf={newKeyBody}
      onSend={async (members) => props.onDone(await post<NewKey>("/api/keys", members))}
      onClose={props.onClose}
    />
  );
}

// Within what the workspace allows its members.
export function CreateOwnKey(props: { onDone: (key: NewKey) => void; onClose: () => void }) {
  const { data, error } = useLoad((abort) => get<OwnCreditView>("/api/me/credit", {}, abort), []);
  if (!data) return error && <Problem error={error} />;
  return (
    <FormDialog
      title="New key"
      action="Create key"
      start={NEW_KEY}
      own={data}
      bodyOf={(form) => ownKeyBody(form, data.allowed.budget_period)}
      onSend={async (members) => props.onDone(await post<NewKey>("/api/me/keys", members))}
      onClose={props.onClose}
    />
  );
}

export function EditKey(props: { apiKey: Key; onDone: () => void; onClose: () => void }) {
  const { apiKey } = props;
  return (
    <FormDialog
      title={`Change ${apiKey.name}`}
      action="Save"
      start={formOf(apiKey)}
      bodyOf={(form) => patchOf(apiKey, form)}
      onSend={async (members) => {
        if (Object.keys(members).length) await patch(`/api/keys/${encodeURIComponent(apiKey.id)}`, members);
        props.onDone();
      }}
      onClose={props.onClose}
    />
  );
}

function FormDialog(props: {
  title: string;
  action: string;
  start: KeyForm;
  workspaces?: Workspaces; // to choose from, of a new key
  own?: OwnCreditView; // it is a member's: only what members choose
  bodyOf: (form: KeyForm) => { members: Record<string, unknown>; problems: FormProblems };
  onSend: (members: Record<string, unknown>) => Promise<void>;
  onClose: () => void;
}) {
  const { own } = props;
  const [form, setForm] = useState(props.start);
  const [error, setError] = useState<ApiError | null>(null);
  const [hasTried, setHasTried] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const { members, problems } = useMemo(() => props.bodyOf(form), [form]);
  const change = (more: Partial<KeyForm>) => {
    setForm((before) => ({ ...before, ...more }));
    setError(null);
  };
  const box = useRef<HTMLFormElement>(null);
  const [focus, setFocus] = useState(0);
  useEffect(() => box.current?.querySelector<HTMLElement>("[aria-invalid='true']")?.focus(), [focus, error]);
  const told = fieldOf(error?.param ?? null);
  const wrong = (name: string): string | null => (hasTried && problems[name]) || (told === name ? (error?.message ?? null) : null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setHasTried(true);
    const first = Object.keys(problems)[0];
    if (first) setFocus((before) => before + 1);
    if (isBusy || first) return;
    setIsBusy(true);
    setError(null);
    try {
      await props.onSend(members);
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
    }
  };
  const text = (name: "name" | LimitName | "budget_usd" | "price_group", label: string, hint: string, mode: "text" | "numeric" | "decimal") => (
    <Field label={label} hint={hint} error={wrong(name)}>
      {(id, hintId) => (
        <input
          id={id}
          aria-describedby={hintId}
          aria-invalid={Boolean(wrong(name))}
          inputMode={mode}
          autofocus={name === "name"}
          autocomplete="off"
          spellcheck={false}
          maxLength={name === "name" || name === "price_group" ? 64 : 20}
          value={form[name]}
          onInput={(event) => change({ [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  const isElsewhere = error !== null && (told === null || !(told in members || told === "workspace"));
  return (
    <Dialog title={props.title} wide onClose={props.onClose}>
      <form ref={box} class="form" onSubmit={submit} noValidate>
        <div class="form-grid">
          {text("name", "Name", "", "text")}
          {props.workspaces && seesAll() && (
            <Field label="Workspace" error={wrong("workspace")}>
              {(id) => <WorkspaceSelect id={id} value={form.workspace} workspaces={props.workspaces as Workspaces} onChange={(workspace) => change({ workspace })} />}
            </Field>
          )}
          {may("price_groups.choose") && text("price_group", "Price group", "Of the configuration. Empty: the workspace's.", "text")}
          {!own && (
            <Field label="Dialect" hint="Of chat completions, if the path names none." error={wrong("dialect")}>
              {(id) => <Select<string> id={id} value={form.dialect} options={[["", "the server's default"], ...DIALECTS.map((each) => [each, each] as const)]} onChange={(dialect) => change({ dialect })} />}
            </Field>
          )}
        </div>
        {!own && <Scopes chosen={form.scopes} error={wrong("scopes")} onChange={(scopes) => change({ scopes })} />}
        <Field label="Models" hint={`One per line; gpt-* matches every name with that prefix. Empty: ${own?.allowed.models?.join(", ") || "every model"}.`} error={wrong("models")}>
          {(id, hintId) => (
            <textarea
              id={id}
              aria-describedby={hintId}
              class="mono"
              rows={2}
              spellcheck={false}
              value={form.models}
              onInput={(event) => change({ models: event.currentTarget.value })}
            />
          )}
        </Field>
        {!own && <div class="form-grid">{LIMITS.map((limit) => text(limit.name, limit.label, "Empty: no limit.", "numeric"))}</div>}
        <div class="form-grid">
          {text("budget_usd", "Budget in dollars", `${own && own.budget_left_usd !== null ? `Empty: all that is left, ${budgetOf(own)}` : "Empty: no limit"}. Requests are refused when it is spent.`, "decimal")}
          {own?.allowed.budget_period == null && (
            <Field label="Budget period" error={wrong("budget_period")}>
              {(id) => <Select<string> id={id} value={form.budget_period} options={PERIODS} onChange={(budget_period) => change({ budget_period })} />}
            </Field>
          )}
          <Field label="Expires" hint="In your time zone. Empty: never." error={wrong("expires_ms")}>
            {(id, hintId) => <input id={id} aria-describedby={hintId} type="datetime-local" value={form.expires} onInput={(event) => change({ expires: event.currentTarget.value })} />}
          </Field>
        </div>
        {!own && <Checks form={form} onChange={change} />}
        {isElsewhere && <Problem error={error} />}
        <div class="dialog-actions">
          {hasTried && Object.keys(problems).length > 0 && <span class="bad small">Fix the errors above.</span>}
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" tone="accent" disabled={isBusy}>
            {props.action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Checks(props: { form: KeyForm; onChange: (more: Partial<KeyForm>) => void }) {
  const { form } = props;
  return (
    <>
        <Check label="Store prompts and answers of this key" isChecked={form.log_content} onChange={(log_content) => props.onChange({ log_content })}>
          Admins can read them in the console until they are deleted. Switch this on only if you need it and the key's users know.
        </Check>
        <Check label="Show routing in answers" isChecked={form.show_routing} onChange={(show_routing) => props.onChange({ show_routing })}>
          Headers of each answer tell the provider and model, the number of attempts, and the price of an answer that is not streamed.
        </Check>
        <Check label="Show the cost in answers" isChecked={form.show_cost} onChange={(show_cost) => props.onChange({ show_cost })}>
          The usage in each answer has the member cost: what the caller pays for it.
        </Check>
    </>
  );
}

function Scopes(props: { chosen: string[]; error: string | null; onChange: (scopes: string[]) => void }) {
  const mayAppoint = may("keys.appoint");
  const set = (scope: string, isOn: boolean) => props.onChange(SCOPES.map(([name]) => name as string).filter((name) => (name === scope ? isOn : props.chosen.includes(name))));
  return (
    <fieldset>
      <legend>Scopes</legend>
      {SCOPES.filter(([scope]) => !APPOINTED.includes(scope) || mayAppoint || props.chosen.includes(scope)).map(([scope, about]) => (
        <label key={scope} class="check">
          <input type="checkbox" checked={props.chosen.includes(scope)} disabled={APPOINTED.includes(scope) && !mayAppoint} onChange={(event) => set(scope, event.currentTarget.checked)} />
          <span>
            <span class="mono">{scope}</span> <span class="muted">{about}</span>
          </span>
        </label>
      ))}
      {!mayAppoint && <p class="hint">Only owners and operators can grant the scopes admin and metrics.</p>}
      {props.error && <p class="hint bad">{props.error}</p>}
    </fieldset>
  );
}

export function Check(props: { label: string; isChecked: boolean; onChange: (isOn: boolean) => void; children: ComponentChildren }) {
  return (
    <label class="check">
      <input type="checkbox" checked={props.isChecked} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>
        {props.label}
        <span class="hint block">{props.children}</span>
      </span>
    </label>
  );
}
