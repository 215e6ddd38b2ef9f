// The ledger row by row, the newest first. Every amount that moved stands in it, with the request it moved for.
import { get, session } from "../../lib/api";
import { exactDollars } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { go, href, query } from "../../lib/route";
import type { LedgerView, Page as Rows } from "../../lib/types";
import { At, Badge, Button, Empty, Panel, Problem, Waiting, type Tone } from "../../ui/parts";
import { Table } from "../../ui/table";
import { WorkspaceSelect, type Workspaces } from "../../ui/workspaces";

const LIMIT = 50;

function adjust(change: Record<string, string | null>): void {
  go("/workspaces", { ...Object.fromEntries(query.value), ...change });
}

export function Ledger(props: { workspaces: Workspaces; turn: number }) {
  const { nameOf } = props.workspaces;
  const workspace = query.value.get("workspace");
  const before = query.value.get("before");
  const { data, error, isLoading, reload } = useLoad(
    (abort) => get<Rows<LedgerView>>("/api/ledger", { workspace, before, limit: LIMIT }, abort),
    [workspace, before, props.turn],
  );
  const choice = session.value?.is_operator && (
    <WorkspaceSelect label="Workspace" all="All workspaces" value={workspace ?? ""} workspaces={props.workspaces} onChange={(id) => adjust({ workspace: id || null, before: null })} />
  );
  return (
    <Panel title="Ledger" flush class="dense" actions={choice}>
      <Problem error={error} onRetry={reload} />
      {!data ? (
        !error && <Waiting />
      ) : !data.data.length ? (
        <Empty title={before === null ? "No ledger rows yet" : "No older rows"}>Each request reserves an amount when it is admitted, and is settled when it ends. Credit is listed here, too.</Empty>
      ) : (
        <Table<LedgerView>
          label="Ledger"
          rows={data.data}
          keyOf={(row) => row.seq}
          columns={[
            { name: "No.", isNumber: true, show: (row) => row.seq },
            { name: "Time", class: "nowrap", show: (row) => <At at={row.at_ms} /> },
            { name: "What", show: (row) => <Kind kind={row.kind} /> },
            session.value?.is_operator === true && { name: "Workspace", class: "clip narrow", show: (row: LedgerView) => <span title={row.workspace}>{nameOf(row.workspace)}</span> },
            { name: "Amount", isNumber: true, show: (row) => <Amount usd={row.amount_usd} /> },
            { name: "Cost", isNumber: true, show: (row) => (row.cost_usd === null ? <span class="muted">–</span> : exactDollars(row.cost_usd)) },
            { name: "Request", show: (row) => <RequestLink id={row.request_id} /> },
            { name: "Key", show: (row) => <KeyLink id={row.key_id} /> },
            { name: "Note", class: "clip", show: (row) => (row.note ? <span title={row.note}>{row.note}</span> : <span class="muted">–</span>) },
          ]}
        />
      )}
      {data && (data.next !== null || before !== null) && (
        <nav class="pager" aria-label="Pages of the ledger">
          {before !== null && <Button onClick={() => adjust({ before: null })}>Newest</Button>}
          <Button disabled={data.next === null || isLoading} onClick={() => adjust({ before: String(data.next) })}>
            Older
          </Button>
        </nav>
      )}
    </Panel>
  );
}

const KINDS: Record<string, [Tone, string, string]> = {
  hold: ["plain", "reserved", "Set aside when the request was admitted"],
  settle: ["plain", "settled", "The request ended: the unspent part of the reservation is released"],
  credit: ["accent", "credit", "Granted to the workspace, or taken back"],
};

function Kind(props: { kind: string }) {
  const isMore = props.kind.startsWith("extend.");
  const [tone, name, about] = isMore ? (["plain", "extended", "A stream needed more than was reserved at first"] as const) : (KINDS[props.kind] ?? ["plain", props.kind, ""]);
  return (
    <Badge tone={tone} title={about}>
      {name}
    </Badge>
  );
}

function Amount(props: { usd: string }) {
  const isMinus = props.usd.startsWith("-");
  return <span>{isMinus || Number(props.usd) === 0 ? exactDollars(props.usd) : `+${exactDollars(props.usd)}`}</span>;
}

function RequestLink(props: { id: string | null }) {
  if (props.id === null) return <span class="muted">–</span>;
  return (
    <a class="mono nowrap" href={href(`/requests/${encodeURIComponent(props.id)}`)} title={props.id}>
      {shortId(props.id)}
    </a>
  );
}

function KeyLink(props: { id: string | null }) {
  if (props.id === null) return <span class="muted">–</span>;
  return (
    <a class="mono nowrap" href={href("/keys", { show: props.id })} title={props.id}>
      {shortId(props.id)}
    </a>
  );
}

// The end of an id that was drawn tells it apart. A name of the configuration file is shown whole.
function shortId(id: string): string {
  return /^(req|key)_/.test(id) && id.length > 14 ? `…${id.slice(-8)}` : id;
}
