// The bar above the log: the filters that are used most, the others behind a fold, and those in force as chips. Nothing is
// asked while somebody types: a text counts with Enter or when its box is left.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useState } from "preact/hooks";
import { APIS, nameOfApi } from "../../lib/apis";
import {
  chipsOf,
  isAmount,
  localTime,
  partOf,
  readId,
  readLocalTime,
  SPANS,
  VERDICTS,
  type FilterName,
  type Filters,
} from "../../lib/filters";
import { CODE_NAMES } from "../../lib/explain";
import { outcome } from "../../lib/format";
import { may, seesAll } from "../../lib/permission";
import type { RequestView } from "../../lib/types";
import { Select } from "../../ui/parts";
import type { Names } from "../requests";

export type Changes = Partial<Record<FilterName, string | null>>;

// What there is to choose from: what the rows that were seen hold, and all keys, workspaces, models and providers once somebody
// filters.
export interface Seen {
  keys: Map<string, string>;
  models: Set<string>;
  targets: Set<string>;
  providers: Set<string>;
  errors: Set<string>;
  sessions: Set<string>;
  users: Set<string>;
  tags: Set<string>;
  workspaces: Map<string, string>;
}

export function nothingSeen(): Seen {
  return {
    keys: new Map(),
    models: new Set(),
    targets: new Set(),
    providers: new Set(),
    errors: new Set(CODE_NAMES),
    sessions: new Set(),
    users: new Set(),
    tags: new Set(),
    workspaces: new Map(),
  };
}

export function see(seen: Seen, rows: readonly RequestView[]): void {
  for (const row of rows) {
    if (row.key_id) seen.keys.set(row.key_id, row.key_name ?? row.key_id);
    if (row.model) seen.models.add(row.model);
    if (row.target) seen.targets.add(row.target), seen.providers.add(row.target.split("/", 1)[0] ?? "");
    if (row.session) seen.sessions.add(row.session);
    if (row.end_user) seen.users.add(row.end_user);
    for (const tag of row.tags) seen.tags.add(tag);
    if (row.error) seen.errors.add(row.error);
    if (row.workspace && !seen.workspaces.has(row.workspace)) seen.workspaces.set(row.workspace, row.workspace);
  }
}

export function name(seen: Seen, names: Names): void {
  for (const key of names.keys) seen.keys.set(key.id, key.name);
  for (const workspace of names.workspaces) seen.workspaces.set(workspace.id, workspace.name);
  for (const model of names.models) seen.models.add(model);
  for (const provider of names.providers) {
    seen.providers.add(provider.name);
    for (const target of provider.targets) seen.targets.add(`${provider.name}/${target.model}`);
  }
}

interface FilterProps {
  filters: Filters;
  seen: Seen;
  onChange: (changes: Changes) => void;
  onNaming: () => void; // names are about to be needed
}

const OTHERS: readonly FilterName[] = [
  "since_ms",
  "until_ms",
  "workspace",
  "provider",
  "target",
  "dialect",
  "status_class",
  "error",
  "stream",
  "end_user",
  "session",
  "tag",
  "min_price_usd",
  "max_price_usd",
  "min_cost_usd",
  "max_cost_usd",
];

export function FilterBar(props: FilterProps) {
  const { filters, onChange } = props;
  const [isOpen, setIsOpen] = useState(() => OTHERS.some((name) => filters[name] !== undefined));
  const moreId = useId();
  const text = (name: FilterName, label: string, more: Partial<TextProps> = {}) => (
    <TextBox name={name} label={label} value={filters[name] ?? ""} onChange={(value) => onChange({ [name]: value || null })} {...more} />
  );
  // Its choices are what is known; what is typed and is none of them is a part of what is looked for.
  const part = (name: FilterName, label: string, known: ReadonlySet<string>) =>
    text(name, label, { list: [...known].map((each) => [each, ""]), placeholder: "any part", clean: (typed) => partOf(typed, known), onFocus: props.onNaming });
  const { verdict, failed, refused } = filters;
  const result = verdict ?? (failed ? `failed=${failed}` : refused ? `refused=${refused}` : "");
  return (
    <div class="log-filters" role="search" aria-label="Filters">
      <div class="log-filter-row">
        {text("id", "Id", { placeholder: "or its end", isMono: true, clean: readId })}
        <Box label="Time">
          {(id) => (
            <Select
              id={id}
              value={filters.since_ms || filters.until_ms ? "own" : (filters.last ?? "")}
              options={[
                ["", "Any time"],
                ...Object.entries(SPANS).map(([name, span]) => [name, span.text] as const),
                ...(filters.since_ms || filters.until_ms ? [["own", "From … to …"] as const] : []),
              ]}
              onChange={(last) => onChange(last === "own" ? {} : { last: last || null, since_ms: null, until_ms: null })}
            />
          )}
        </Box>
        {part("model", "Model", props.seen.models)}
        {text("key", "Key", {
          list: [...props.seen.keys],
          placeholder: "any part, or id",
          clean: (typed) => keyOf(props.seen.keys, typed),
          onFocus: props.onNaming,
        })}
        <Box label="Result">
          {(id) => (
            <Select
              id={id}
              value={result}
              options={[
                ["", "Any"],
                ["failed=true", "Failed"],
                ["failed=false", "Not failed"],
                ["refused=true", "Refused by the gateway"],
                ...(refused === "false" ? [["refused=false", "Not refused by the gateway"] as const] : []),
                ...withOwn(VERDICTS, verdict).map((each) => [each, outcome(each)] as const),
              ]}
              onChange={(chosen) => {
                const [name = "", value] = chosen.split("=");
                onChange({ failed: null, refused: null, verdict: null, ...(value ? { [name]: value } : { verdict: chosen || null }) });
              }}
            />
          )}
        </Box>
        <button type="button" class="button" aria-expanded={isOpen} aria-controls={moreId} onClick={() => setIsOpen(!isOpen)}>
          {isOpen ? "Fewer filters" : "More filters"}
        </button>
      </div>
      <div class="log-filter-row" id={moreId} hidden={!isOpen}>
        <TimeBox name="since_ms" label="From" {...props} />
        <TimeBox name="until_ms" label="Before" {...props} />
        {seesAll() &&
          text("workspace", "Workspace", {
            list: [...props.seen.workspaces],
            placeholder: "name or id",
            clean: (typed) => idOf(props.seen.workspaces, typed.trim()),
            onFocus: props.onNaming,
          })}
        {part("provider", "Provider", props.seen.providers)}
        {part("target", "Target", props.seen.targets)}
        <Chosen name="dialect" label="API" options={withOwn(APIS, filters.dialect).map((each) => [each, nameOfApi(each)])} {...props} />
        <Chosen name="status_class" label="Status" options={["2", "4", "5"].map((each) => [each, `${each}xx`])} {...props} />
        {part("error", "Error code", props.seen.errors)}
        <Chosen
          name="stream"
          label="Streamed"
          options={[
            ["true", "Yes"],
            ["false", "No"],
          ]}
          {...props}
        />
        {part("end_user", "End user", props.seen.users)}
        {part("session", "Session", props.seen.sessions)}
        {text("tag", "Tag", { placeholder: "name=value", list: [...props.seen.tags].map((each) => [each, ""]) })}
        {text("min_price_usd", "Price from, $", { isAmount: true })}
        {text("max_price_usd", "Price to, $", { isAmount: true })}
        {may("costs.read") && text("min_cost_usd", "Cost from, $", { isAmount: true })}
        {may("costs.read") && text("max_cost_usd", "Cost to, $", { isAmount: true })}
      </div>
    </div>
  );
}

export function Chips(props: Pick<FilterProps, "filters" | "seen" | "onChange"> & { onClear: () => void }) {
  const chips = chipsOf(props.filters, (id) => props.seen.keys.get(id) ?? props.seen.workspaces.get(id));
  if (!chips.length) return null;
  return (
    <ul class="chips" aria-label="Active filters">
      {chips.map((chip) => (
        <li key={chip.name}>
          <button type="button" class="chip" title={`${chip.text}: remove`} onClick={() => props.onChange({ [chip.name]: null })}>
            <bdi>{chip.text}</bdi>
            <span aria-hidden="true">✕</span>
            <span class="visually-hidden">remove</span>
          </button>
        </li>
      ))}
      {chips.length > 1 && (
        <li>
          <button type="button" class="button quiet small" onClick={props.onClear}>
            Clear all
          </button>
        </li>
      )}
    </ul>
  );
}

// A value that came by a link is one of the choices, known or not.
function withOwn(known: readonly string[], own: string | undefined): readonly string[] {
  return own === undefined || known.includes(own) ? known : [...known, own];
}

// A name is as good as an id, where it is known.
function idOf(known: ReadonlyMap<string, string>, typed: string): string {
  const found = known.has(typed) ? undefined : [...known].find(([, name]) => name === typed);
  return found?.[0] ?? typed;
}

// An id or a whole name is a key; else it is a part of a name, which the server looks for.
function keyOf(known: ReadonlyMap<string, string>, typed: string): string {
  const id = idOf(known, typed.trim());
  return known.has(id) || id.startsWith("key_") ? id : partOf(typed, []);
}

function Box(props: { label: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="log-filter">
      <label for={id}>{props.label}</label>
      {props.children(id)}
    </div>
  );
}

function Chosen(props: FilterProps & { name: FilterName; label: string; options: readonly (readonly [string, string])[] }) {
  return (
    <Box label={props.label}>
      {(id) => (
        <Select
          id={id}
          value={props.filters[props.name] ?? ""}
          options={[["", "Any"], ...withOwnOption(props.options, props.filters[props.name])]}
          onChange={(value) => props.onChange({ [props.name]: value || null })}
        />
      )}
    </Box>
  );
}

function withOwnOption(options: readonly (readonly [string, string])[], own: string | undefined): readonly (readonly [string, string])[] {
  return own === undefined || options.some(([value]) => value === own) ? options : [...options, [own, own]];
}

function TimeBox(props: FilterProps & { name: "since_ms" | "until_ms"; label: string }) {
  const value = props.filters[props.name];
  const shown = value === undefined ? "" : localTime(Number(value));
  const commit = (text: string) => {
    if (text !== shown) props.onChange({ [props.name]: readLocalTime(text) });
  };
  return (
    <Box label={props.label}>
      {(id) => <Draft id={id} type="datetime-local" value={shown} onCommit={commit} />}
    </Box>
  );
}

interface TextProps {
  name: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
  list?: readonly (readonly [value: string, name: string])[];
  placeholder?: string;
  isMono?: boolean;
  isAmount?: boolean;
  clean?: (text: string) => string;
  onFocus?: () => void;
}

function TextBox(props: TextProps) {
  const [isWrong, setIsWrong] = useState(false);
  const commit = (text: string) => {
    if (text === props.value) return setIsWrong(false); // it came by a link, or nothing was typed
    const value = (props.clean ?? ((each) => each.trim()))(text);
    const isBad = Boolean(props.isAmount && value && !isAmount(value));
    setIsWrong(isBad);
    if (!isBad && value !== props.value) props.onChange(value);
  };
  return (
    <Box label={props.label}>
      {(id) => (
        <>
          <Draft
            id={id}
            type="search"
            class={props.isMono ? "mono" : ""}
            value={props.value}
            onCommit={commit}
            placeholder={props.placeholder ?? ""}
            {...(props.isAmount ? { inputMode: "decimal" as const } : {})}
            {...(props.onFocus ? { onFocus: props.onFocus } : {})}
            {...(props.list ? { list: `${id}-list` } : {})}
            {...(isWrong ? { wrongId: `${id}-wrong` } : {})}
          />
          {isWrong && (
            <span class="hint bad" id={`${id}-wrong`}>
              An amount, such as 0.25
            </span>
          )}
          {props.list && (
            <datalist id={`${id}-list`}>
              {props.list.map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </datalist>
          )}
        </>
      )}
    </Box>
  );
}

interface DraftProps {
  id: string;
  type: "search" | "datetime-local";
  value: string;
  onCommit: (text: string) => void;
  class?: string;
  placeholder?: string;
  list?: string;
  inputMode?: "decimal";
  onFocus?: () => void;
  wrongId?: string; // of what says that it is wrong
}

// Keeps what is typed until it is done, and takes what the address says whenever that changes.
function Draft({ value, onCommit, wrongId, ...rest }: DraftProps) {
  const [draft, setDraft] = useState(value);
  useLayoutEffect(() => setDraft(value), [value]); // before anybody types
  return (
    <input
      {...rest}
      value={draft}
      spellcheck={false}
      autocomplete="off"
      aria-invalid={wrongId !== undefined}
      aria-describedby={wrongId}
      onInput={(event) => setDraft(event.currentTarget.value)}
      onBlur={(event) => onCommit(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") onCommit(event.currentTarget.value);
      }}
    />
  );
}
