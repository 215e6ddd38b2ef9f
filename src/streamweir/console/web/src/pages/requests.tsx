// The log of requests: filters in the address, one question to the server for each view, pages from the newest back. The
// newest page follows what ends, until somebody pauses it.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, withQuery } from "../lib/api";
import { chosenColumns, keptColumns } from "../lib/columns";
import { asked, CURSORS, isWholeRequestId, readCursors, readFilters, withFilters, writeCursors, type Filters } from "../lib/filters";
import { count, plural } from "../lib/format";
import { useLoad, useRefresh } from "../lib/load";
import { may, scoped } from "../lib/permission";
import { go, query } from "../lib/route";
import type { KeyView as Key, Page as Rows, PlaygroundView, ProviderView, RequestView, Workspace } from "../lib/types";
import { Button, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Table } from "../ui/table";
import { useWorkspaces } from "../ui/workspaces";
import { ChooseColumns, columnsOf } from "./requests/columns";
import { Chips, FilterBar, name, nothingSeen, see, type Changes } from "./requests/filters";
import { NoRows } from "./requests/nothing";

const LIMIT = 50;
const FOLLOW_MS = 2000;
const FOLLOW_FILTERED_MS = 5000; // a filter is more work for the server

export function Requests() {
  const filters = readFilters(query.value);
  const cursors = readCursors(query.value);
  const cursor = cursors.at(-1);
  const question = JSON.stringify([filters, cursor]);
  const [isPaused, setIsPaused] = useState(false);
  const mayFollow = cursor === undefined && filters.id === undefined && filters.until_ms === undefined;
  const { data, error, isLoading, reload } = useLoad(
    async (abort) => ({
      question,
      page: await get<Rows<RequestView>>(scoped("/requests"), { ...asked(filters, Date.now()), cursor, limit: LIMIT }, abort),
    }),
    [question],
  );
  const isAsking = useRef(isLoading);
  isAsking.current = isLoading;
  const follow = useCallback(() => {
    if (!isAsking.current) reload();
  }, [reload]);
  useRefresh(follow, isPaused || !mayFollow || error ? null : Object.keys(filters).length ? FOLLOW_FILTERED_MS : FOLLOW_MS);
  const [kept, setKept] = useState(keptColumns);
  const isNew = useNewRows(data?.question ?? null, data?.page.data ?? []);
  const workspaces = useWorkspaces();
  const columns = columnsOf({ filters, isNew, nameOf: workspaces.nameOf });
  const seen = useRef(nothingSeen());
  if (data) see(seen.current, data.page.data);
  const [isNaming, setIsNaming] = useState(false);
  const naming = isNaming || filters.key !== undefined || filters.workspace !== undefined;
  const names = useLoad((abort) => (naming ? namesOf(abort) : Promise.resolve(null)), [naming]);
  if (names.data) name(seen.current, names.data);

  const found = data?.question === question ? foundById(filters, cursor, data.page) : null;
  useEffect(() => {
    if (found !== null) go(`/requests/${encodeURIComponent(found)}`, {}, { replace: true });
  }, [found]);

  const change = (changes: Changes) => go("/requests", withFilters(filters, changes));
  const turnTo = (next: readonly string[]) => go("/requests", { ...filters, [CURSORS]: writeCursors(next) });
  return (
    <Page
      title="Requests"
      actions={
        <>
          {mayFollow && (
            <Button small aria-pressed={isPaused} title={isPaused ? "New requests are not shown." : "New requests are shown as they end."} onClick={() => setIsPaused(!isPaused)}>
              {isPaused ? "Follow" : "Pause"}
            </Button>
          )}
          <ChooseColumns all={columns} kept={kept} onChange={setKept} />
          {may("requests.export") && <Exports filters={filters} />}
        </>
      }
    >
      <FilterBar filters={filters} seen={seen.current} onChange={change} onNaming={() => setIsNaming(true)} />
      <Chips filters={filters} seen={seen.current} onChange={change} onClear={() => go("/requests")} />
      <Problem error={error} onRetry={reload} />
      {data === null || found !== null ? (
        isLoading && <Waiting />
      ) : (
        <Panel flush class={data.question === question ? "log" : "log is-loading"}>
          {data.page.data.length ? (
            <Table label="Requests" columns={chosenColumns(columns, kept)} rows={data.page.data} keyOf={(row) => row.request_id} />
          ) : (
            <NoRows
              filters={filters}
              isFirst={cursors.length === 0}
              nameOf={(id) => seen.current.keys.get(id) ?? seen.current.workspaces.get(id) ?? workspaces.nameOf(id)}
              onOlder={data.page.next === null ? null : () => turnTo([...cursors, String(data.page.next)])}
              onChange={change}
            />
          )}
          <Pager cursors={cursors} page={data.page} onTurn={turnTo} onReload={reload} />
        </Panel>
      )}
    </Page>
  );
}

export interface Names {
  keys: Key[];
  workspaces: Workspace[];
  models: string[];
  providers: ProviderView[];
}

async function namesOf(abort: AbortSignal): Promise<Names> {
  const [keys, workspaces, playground, providers] = await Promise.all([
    get<Rows<Key>>(scoped("/keys"), { limit: 1000 }, abort),
    may("workspaces.read") ? get<Rows<Workspace>>("/api/workspaces", { limit: 1000 }, abort) : null,
    may("playground") ? get<PlaygroundView>("/api/playground", {}, abort) : null,
    may("routing.read") ? get<Rows<ProviderView>>("/api/providers", {}, abort) : null,
  ]);
  return { keys: keys.data, workspaces: workspaces?.data ?? [], models: playground?.models ?? [], providers: providers?.data ?? [] };
}

// Whether a row has come since this question was first answered: such a row is marked for a moment.
function useNewRows(question: string | null, rows: readonly RequestView[]): (row: RequestView) => boolean {
  const known = useRef<{ question: string | null; ids: Set<string>; fresh: Set<string> }>({ question: null, ids: new Set(), fresh: new Set() });
  const before = known.current;
  if (before.question !== question) known.current = { question, ids: new Set(rows.map((row) => row.request_id)), fresh: new Set() };
  else {
    const come = rows.filter((row) => !before.ids.has(row.request_id));
    if (come.length) before.fresh = new Set(come.map((row) => row.request_id));
    for (const row of come) before.ids.add(row.request_id);
  }
  return (row) => known.current.fresh.has(row.request_id);
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
