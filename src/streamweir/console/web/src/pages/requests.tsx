// The log of requests: filters in the address, one question to the server for each view, pages from the newest back.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, session, withQuery } from "../lib/api";
import { asked, CURSORS, isWholeRequestId, readCursors, readFilters, withFilters, writeCursors, type Filters } from "../lib/filters";
import { clock, count, day, dollars, duration, exactDollars, plural, preciseMoment, short } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, href, query } from "../lib/route";
import type { KeyView as Key, Page as Rows, RequestView, Workspace } from "../lib/types";
import { Button, Empty, Page, Panel, Problem, Verdict, Waiting } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { Chips, FilterBar, name, nothingSeen, see, type Changes } from "./requests/filters";

const LIMIT = 50;

export function Requests() {
  const filters = readFilters(query.value);
  const cursors = readCursors(query.value);
  const cursor = cursors.at(-1);
  const question = JSON.stringify([filters, cursor]);
  const { data, error, isLoading, reload } = useLoad(
    async (abort) => ({
      question,
      page: await get<Rows<RequestView>>("/api/requests", { ...asked(filters, Date.now()), cursor, limit: LIMIT }, abort),
    }),
    [question],
  );
  const seen = useRef(nothingSeen());
  if (data) see(seen.current, data.page.data);
  const [isNaming, setIsNaming] = useState(false);
  const naming = isNaming || filters.key !== undefined || filters.workspace !== undefined;
  const names = useLoad((abort) => (naming ? namesOf(abort) : Promise.resolve(null)), [naming]);
  if (names.data) name(seen.current, ...names.data);

  const found = data?.question === question ? foundById(filters, cursor, data.page) : null;
  useEffect(() => {
    if (found !== null) go(`/requests/${encodeURIComponent(found)}`, {}, { replace: true });
  }, [found]);

  const change = (changes: Changes) => go("/requests", withFilters(filters, changes));
  const turnTo = (next: readonly string[]) => go("/requests", { ...filters, [CURSORS]: writeCursors(next) });
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Page title="Requests" actions={<Exports filters={filters} />}>
      <FilterBar filters={filters} seen={seen.current} isOperator={session.value?.is_operator ?? false} onChange={change} onNaming={() => setIsNaming(true)} />
      <Chips filters={filters} seen={seen.current} onChange={change} onClear={() => go("/requests")} />
      <Problem error={error} onRetry={reload} />
      {data === null || found !== null ? (
        isLoading && <Waiting />
      ) : (
        <Panel flush class={isLoading ? "log is-loading" : "log"}>
          {data.page.data.length ? (
            <RequestTable rows={data.page.data} filters={filters} />
          ) : (
            <NoRows isFiltered={isFiltered} isFirst={cursors.length === 0} id={filters.id} onOlder={data.page.next === null ? null : () => turnTo([...cursors, String(data.page.next)])} />
          )}
          <Pager cursors={cursors} page={data.page} onTurn={turnTo} onReload={reload} />
        </Panel>
      )}
    </Page>
  );
}

async function namesOf(abort: AbortSignal): Promise<[Key[], Workspace[]]> {
  const [keys, workspaces] = await Promise.all([
    get<Rows<Key>>("/api/keys", { limit: 1000 }, abort),
    get<Rows<Workspace>>("/api/workspaces", { limit: 1000 }, abort),
  ]);
  return [keys.data, workspaces.data];
}

// One match is what was looked for. None, of a whole id: it may run still, which its own page knows.
function foundById(filters: Filters, cursor: string | undefined, page: Rows<RequestView>): string | null {
  if (!filters.id || cursor !== undefined || page.next !== null) return null;
  if (page.data.length === 0) return isWholeRequestId(filters.id) ? filters.id : null;
  return page.data.length === 1 ? (page.data[0]?.request_id ?? null) : null;
}

function Exports(props: { filters: Filters }) {
  const link = (format: string) => withQuery("/api/requests/export", { format, ...asked(props.filters, Date.now()) });
  return (
    <>
      <span class="muted small">Export matches:</span>
      <a class="button small" href={link("csv")} download>
        CSV
      </a>
      <a class="button small" href={link("jsonl")} download>
        JSON lines
      </a>
    </>
  );
}

function RequestTable(props: { rows: readonly RequestView[]; filters: Filters }) {
  const today = day(Date.now());
  const isOperator = session.value?.is_operator ?? false;
  const filterLink = (changes: Changes) => href("/requests", withFilters(props.filters, changes));
  const columns: Column<RequestView>[] = [
    {
      name: "Time",
      class: "nowrap",
      show: (row) => (
        <time class="num" dateTime={new Date(row.at_ms).toISOString()} title={preciseMoment(row.at_ms)}>
          {day(row.at_ms) === today ? clock(row.at_ms) : `${day(row.at_ms).slice(day(row.at_ms).slice(0, 4) === today.slice(0, 4) ? 5 : 2)} ${clock(row.at_ms)}`}
        </time>
      ),
    },
    {
      name: "Request",
      show: (row) => (
        <a class="mono nowrap" href={href(`/requests/${encodeURIComponent(row.request_id)}`)} title={row.request_id}>
          {shortId(row.request_id)}
        </a>
      ),
    },
    {
      name: "Result",
      show: (row) => (
        <span class="log-result">
          <Verdict verdict={row.verdict} error={row.error} />
          {(row.status !== 200 || row.error) && (
            <span class="muted small clip-line" title={row.error ?? ""}>
              {row.status || "–"} {row.error}
            </span>
          )}
        </span>
      ),
    },
    {
      name: "Model",
      class: "log-model",
      show: (row) => (
        <>
          {row.model === null ? (
            <span class="muted">–</span>
          ) : (
            <a class="clip-line plain-link" href={filterLink({ model: row.model })} title={`${row.target ?? row.model}: show only ${row.model}`}>
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
      ),
    },
    {
      name: "Key",
      class: "log-key",
      show: (row) =>
        row.key_id === null ? (
          <span class="muted">–</span>
        ) : (
          <a class="clip-line plain-link" href={filterLink({ key: row.key_id })} title={`Show only ${row.key_name ?? row.key_id}`}>
            <bdi>{row.key_name ?? row.key_id}</bdi>
          </a>
        ),
    },
    { name: "API", show: (row) => <span class="muted small">{row.dialect ?? "–"}</span> },
    { name: "Tokens in", head: "In", isNumber: true, show: (row) => tokens(row, row.prompt_tokens) },
    { name: "Tokens out", head: "Out", isNumber: true, show: (row) => tokens(row, row.completion_tokens) },
    { name: "Price", isNumber: true, show: (row) => <span title={exactDollars(row.price_usd)}>{dollars(row.price_usd)}</span> },
    ...(isOperator ? [{ name: "Margin", isNumber: true, show: (row: RequestView) => <Margin row={row} /> }] : []),
    { name: "First token", head: "First token", isNumber: true, show: (row) => duration(row.ttft_ms) },
    { name: "Duration", isNumber: true, show: (row) => duration(row.duration_ms) },
  ];
  return <Table label="Requests" columns={columns} rows={props.rows} keyOf={(row) => row.request_id} />;
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

// The ids of a minute begin alike.
function shortId(id: string): string {
  return id.length > 14 ? `…${id.slice(-8)}` : id;
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

function NoRows(props: { isFiltered: boolean; isFirst: boolean; id: string | undefined; onOlder: (() => void) | null }) {
  if (props.onOlder) {
    return (
      <Empty
        title="No match in the part of the log searched so far."
        action={
          <Button tone="accent" onClick={props.onOlder}>
            Search older requests
          </Button>
        }
      >
        The server searches a limited number of requests at a time. Older ones may match.
      </Empty>
    );
  }
  if (props.isFiltered) {
    return (
      <Empty title="No request matches." action={<a href={href("/requests")}>Show all requests</a>}>
        {props.id
          ? "Search for a request id (x-request-id), at least its first 12 characters, or the id in its answer."
          : "Remove a filter, or choose a longer time."}
      </Empty>
    );
  }
  if (!props.isFirst) return <Empty title="No older requests." action={<a href={href("/requests")}>Show newest</a>} />;
  return (
    <Empty
      title="No requests yet."
      action={
        <>
          <a class="button accent" href={href("/playground")}>
            Try a model in the playground
          </a>
          <a class="button" href={href("/keys")}>
            Create a key
          </a>
        </>
      }
    >
      <p>Send one with any OpenAI SDK, or with curl:</p>
      <pre class="sample">{`curl ${location.origin}/v1/chat/completions \\
  -H "Authorization: Bearer $STREAMWEIR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "…", "messages": [{"role": "user", "content": "Hello!"}]}'`}</pre>
    </Empty>
  );
}

function Pager(props: { cursors: readonly string[]; page: Rows<RequestView>; onTurn: (cursors: readonly string[]) => void; onReload: () => void }) {
  const { cursors, page } = props;
  const to = props.onTurn;
  const isNewest = cursors.length === 0;
  return (
    <div class="pager">
      <span class="muted small">
        {page.data.length > 0 && (isNewest && page.next !== null ? `The newest ${count(page.data.length)}` : plural(page.data.length, "request"))}
      </span>
      <Button small onClick={props.onReload}>
        Reload
      </Button>
      {cursors.length > 1 && (
        <Button small onClick={() => to([])}>
          Newest
        </Button>
      )}
      <Button small disabled={isNewest} onClick={() => to(cursors.slice(0, -1))}>
        Newer
      </Button>
      <Button small disabled={page.next === null} onClick={() => to([...cursors, String(page.next)])}>
        Older
      </Button>
    </div>
  );
}
