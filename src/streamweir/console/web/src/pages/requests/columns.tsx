// The columns of the log, and the dialog in which one chooses among them.
import { useState } from "preact/hooks";
import { chosenColumns, keepColumns, type Choosable } from "../../lib/columns";
import type { Filters } from "../../lib/filters";
import { withFilters } from "../../lib/filters";
import { clock, count, day, dollars, duration, exactDollars, preciseMoment, short, shortId, zone } from "../../lib/format";
import { may, seesAll } from "../../lib/permission";
import { href } from "../../lib/route";
import type { RequestView } from "../../lib/types";
import { Button, Dialog, Money, Verdict } from "../../ui/parts";
import type { Column } from "../../ui/table";
import type { Changes } from "./filters";

export type LogColumn = Column<RequestView> & Choosable;

interface Shown {
  filters: Filters;
  isNew: (row: RequestView) => boolean;
  nameOf: (workspace: string) => string;
}

export function columnsOf({ filters, isNew, nameOf }: Shown): LogColumn[] {
  const today = day(Date.now());
  const seesCost = may("costs.read");
  const filterLink = (changes: Changes) => href("/requests", withFilters(filters, changes));
  const text = (name: string, value: (row: RequestView) => string | null): LogColumn => ({
    name,
    class: "log-key",
    show: (row) => {
      const said = value(row);
      return said ? (
        <span class="clip-line" title={said}>
          <bdi>{said}</bdi>
        </span>
      ) : (
        <None />
      );
    },
  });
  const columns: (LogColumn | false)[] = [
    {
      name: "Time",
      head: (
        <>
          Time <span class="muted">{zone(Date.now())}</span>
        </>
      ),
      isAlways: true,
      class: "nowrap",
      show: (row) => (
        <time class={isNew(row) ? "num is-new" : "num"} dateTime={new Date(row.at_ms).toISOString()} title={preciseMoment(row.at_ms)}>
          {day(row.at_ms) === today ? clock(row.at_ms) : `${day(row.at_ms).slice(day(row.at_ms).slice(0, 4) === today.slice(0, 4) ? 5 : 2)} ${clock(row.at_ms)}`}
          <span class="card-only"> {zone(row.at_ms)}</span>
        </time>
      ),
    },
    {
      name: "Request",
      isAlways: true,
      show: (row) => (
        <a class="mono nowrap" href={href(`/requests/${encodeURIComponent(row.request_id)}`, { ...filters })} title={row.request_id}>
          {shortId(row.request_id)}
        </a>
      ),
    },
    {
      name: "Result",
      isUsual: true,
      show: (row) => (
        <span class="log-result">
          <Verdict verdict={row.verdict} error={row.error} />
          {row.error !== row.verdict && row.error && (
            <span class="muted small clip-line" title={row.error}>
              {row.error}
            </span>
          )}
        </span>
      ),
    },
    { name: "Status", isUsual: true, isNumber: true, show: (row) => <span class={row.status === 200 ? "muted" : ""}>{row.status || "–"}</span> },
    { name: "Model", isUsual: true, class: "log-model", show: (row) => <Model row={row} filterLink={filterLink} /> },
    {
      name: "Key",
      isUsual: true,
      class: "log-key",
      show: (row) =>
        row.key_id === null ? (
          <None />
        ) : (
          <a class="clip-line plain-link" href={filterLink({ key: row.key_id })} title={`Show only ${row.key_name ?? row.key_id}`}>
            <bdi>{row.key_name ?? row.key_id}</bdi>
          </a>
        ),
    },
    seesAll() && text("Workspace", (row) => row.workspace && nameOf(row.workspace)),
    { name: "API", isUsual: true, show: (row) => <span class="muted small">{row.dialect ?? "–"}</span> },
    text("End user", (row) => row.end_user),
    text("Session", (row) => row.session),
    text("Tags", (row) => row.tags.join(", ")),
    { name: "Tokens in", head: "In", isUsual: true, isNumber: true, show: (row) => tokens(row, row.prompt_tokens) },
    { name: "Tokens out", head: "Out", isUsual: true, isNumber: true, show: (row) => tokens(row, row.completion_tokens) },
    { name: "Price", isUsual: true, isNumber: true, show: (row) => <Money usd={row.price_usd} /> },
    seesCost && { name: "Cost", isNumber: true, show: (row) => <Money usd={row.cost_usd} /> },
    seesCost && { name: "Margin", isUsual: true, isNumber: true, show: (row) => <Margin row={row} /> },
    { name: "Attempts", isNumber: true, show: (row) => count(row.attempts.length) },
    { name: "First token", isUsual: true, isNumber: true, show: (row) => duration(row.ttft_ms) },
    { name: "Duration", isUsual: true, isNumber: true, show: (row) => duration(row.duration_ms) },
    text("Streamed", (row) => (row.stream ? "yes" : "no")),
    text("Finish reason", (row) => row.finish),
    text("Node", (row) => row.node),
    text("Caller", (row) => row.peer),
    text("Client", (row) => row.client),
  ];
  return columns.filter((column): column is LogColumn => column !== false);
}

export function ChooseColumns(props: { all: readonly LogColumn[]; kept: readonly string[] | null; onChange: (kept: string[] | null) => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const shown = chosenColumns(props.all, props.kept).map((column) => column.name);
  const change = (kept: string[] | null) => {
    keepColumns(kept);
    props.onChange(kept);
  };
  return (
    <>
      <Button small onClick={() => setIsOpen(true)}>
        Columns
      </Button>
      {isOpen && (
        <Dialog title="Columns" onClose={() => setIsOpen(false)}>
          <div class="log-columns">
            {props.all.map(
              ({ name, isAlways }) =>
                !isAlways && (
                  <label class="check" key={name}>
                    <input
                      type="checkbox"
                      checked={shown.includes(name)}
                      onChange={(event) => change(event.currentTarget.checked ? [...shown, name] : shown.filter((each) => each !== name))}
                    />
                    {name}
                  </label>
                ),
            )}
          </div>
          <div class="dialog-actions">
            <span class="muted small">Kept in this browser.</span>
            <Button disabled={props.kept === null} onClick={() => change(null)}>
              Usual columns
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function None() {
  return <span class="muted">–</span>;
}

function Model(props: { row: RequestView; filterLink: (changes: Changes) => string }) {
  const { row } = props;
  return (
    <>
      {row.model === null ? (
        <None />
      ) : (
        <a class="clip-line plain-link" href={props.filterLink({ model: row.model })} title={`${row.target ?? row.model}: show only ${row.model}`}>
          {isOfProvider(row) && <span class="muted">{row.target?.slice(0, -row.model.length)}</span>}
          <bdi>{row.model}</bdi>
        </a>
      )}
      {row.target !== null && row.target !== row.model && !isOfProvider(row) && (
        <span class="clip-line muted small" title={row.target}>
          <bdi>{row.target}</bdi>
        </span>
      )}
    </>
  );
}

// `openai/gpt-4o` for `gpt-4o` is told in one line.
function isOfProvider(row: RequestView): boolean {
  const { model, target } = row;
  return model !== null && target !== null && target !== model && target.endsWith(`/${model}`) && target.indexOf("/") === target.length - model.length - 1;
}

// What is left of the price, with the cost on demand.
function Margin(props: { row: RequestView }) {
  const { margin_usd, cost_usd } = props.row;
  if (margin_usd === null || margin_usd === undefined) return <span class="muted" title={cost_usd == null ? "The cost is not known." : `Cost ${exactDollars(cost_usd)}`}>–</span>;
  return (
    <span class={margin_usd.startsWith("-") ? "bad" : ""} title={`${exactDollars(margin_usd)}: cost ${exactDollars(cost_usd)}`}>
      {dollars(margin_usd)}
    </span>
  );
}

function tokens(row: RequestView, value: number | null) {
  const isCounted = value !== null && row.usage_source !== null && row.usage_source !== "provider";
  return (
    <span title={isCounted ? `${count(value)}, counted by the gateway` : count(value)}>
      {isCounted && "~"}
      {short(value)}
    </span>
  );
}
