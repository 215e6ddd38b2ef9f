// The ledger, the newest first: what was charged and credited, each with its request. What is reserved while requests run,
// and released with the charge, is shown if somebody asks for it.
import { get } from "../../lib/api";
import { alignedDollars, decimalsOf, shortId } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { may, seesAll } from "../../lib/permission";
import { go, href, query } from "../../lib/route";
import type { LedgerView, Page as Rows } from "../../lib/types";
import { At, Badge, Button, Empty, Panel, Problem, Select, Serial, Waiting, type Tone } from "../../ui/parts";
import { Table } from "../../ui/table";
import { WorkspaceSelect, type Workspaces } from "../../ui/workspaces";

const LIMIT = 50;
type Kinds = "" | "charge" | "credit" | "reservation" | "all";
const SHOWN: readonly (readonly [Kinds, string])[] = [
  ["", "Charges and credits"],
  ["charge", "Charges"],
  ["credit", "Credits"],
  ["reservation", "Reservations"],
  ["all", "All rows"],
];
const EMPTY: Record<Kinds, string> = { "": "No charges or credits yet", charge: "No charges yet", credit: "No credits yet", reservation: "No reservations yet", all: "No ledger rows yet" };

function adjust(change: Record<string, string | null>): void {
  go("/workspaces", { ...Object.fromEntries(query.value), ...change });
}

export function Ledger(props: { workspaces: Workspaces; turn: number }) {
  const { nameOf } = props.workspaces;
  const workspace = query.value.get("workspace");
  const before = query.value.get("before");
  const seesCost = may("costs.read");
  const kind = SHOWN.find(([name]) => name === query.value.get("kind"))?.[0] ?? "";
  const { data, error, isLoading, reload } = useLoad(
    (abort) => get<Rows<LedgerView>>("/api/ledger", { workspace, kind: kind || null, before, limit: LIMIT }, abort),
    [workspace, kind, before, props.turn],
  );
  const choice = (
    <>
      <Select label="Ledger rows" value={kind} options={SHOWN} onChange={(chosen) => adjust({ kind: chosen || null, before: null })} />
      {seesAll() && (
        <WorkspaceSelect label="Workspace" all="All workspaces" value={workspace ?? ""} workspaces={props.workspaces} onChange={(id) => adjust({ workspace: id || null, before: null })} />
      )}
    </>
  );
  const decimals = decimalsOf((data?.data ?? []).flatMap((row) => [row.amount_usd, row.released_usd, row.cost_usd, row.margin_usd]));
  const money = (usd: string | null | undefined) => (usd === null || usd === undefined ? <span class="muted">–</span> : alignedDollars(usd, decimals));
  return (
    <Panel title="Ledger" flush class="dense" actions={choice}>
      <Problem error={error} onRetry={reload} />
      {!data ? (
        !error && <Waiting />
      ) : !data.data.length ? (
        <Empty title={before === null ? EMPTY[kind] : "No older rows"}>Each request reserves an amount while it runs, and is charged when it ends.</Empty>
      ) : (
        <Table<LedgerView>
          label="Ledger"
          rows={data.data}
          keyOf={(row) => row.seq}
          columns={[
            { name: "No.", isNumber: true, show: (row) => <Serial number={row.seq} /> },
            { name: "Time", class: "nowrap", show: (row) => <At at={row.at_ms} /> },
            { name: "What", show: (row) => <Kind kind={row.kind} /> },
            seesAll() && { name: "Workspace", class: "clip narrow", show: (row: LedgerView) => <span title={row.workspace}>{nameOf(row.workspace)}</span> },
            { name: "Amount", isNumber: true, show: (row) => <Amount row={row} decimals={decimals} /> },
            kind === "all" && { name: "Released", isNumber: true, show: (row: LedgerView) => money(row.released_usd) },
            seesCost && { name: "Cost", isNumber: true, show: (row: LedgerView) => money(row.cost_usd) },
            seesCost && { name: "Margin", isNumber: true, show: (row: LedgerView) => <span class={row.margin_usd?.startsWith("-") ? "bad" : ""}>{money(row.margin_usd)}</span> },
            { name: "Request", show: (row) => <RequestLink id={row.request_id} /> },
            { name: "Key", class: "clip narrow", show: (row) => <KeyLink id={row.key_id} name={row.key_name} /> },
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

const KINDS: Record<LedgerView["kind"], [Tone, string]> = {
  charge: ["plain", "The request ended: its price is charged, and what was reserved for it is released"],
  credit: ["accent", "Granted to the workspace, or taken back"],
  reservation: ["plain", "Set aside when the request was admitted"],
  extension: ["plain", "A stream needed more than was reserved at first"],
};

function Kind(props: { kind: LedgerView["kind"] }) {
  const [tone, about] = KINDS[props.kind];
  return (
    <Badge tone={tone} title={about}>
      {props.kind}
    </Badge>
  );
}

function Amount(props: { row: LedgerView; decimals: number }) {
  const { kind, amount_usd, price_usd } = props.row;
  if (kind === "charge" && price_usd === null) return <span class="muted" title="Its model has no price">unpriced</span>;
  return <span class={kind === "reservation" || kind === "extension" ? "muted" : ""}>{alignedDollars(amount_usd, props.decimals, kind === "credit")}</span>;
}

function RequestLink(props: { id: string | null }) {
  if (props.id === null) return <span class="muted">–</span>;
  return (
    <a class="mono nowrap" href={href(`/requests/${encodeURIComponent(props.id)}`)} title={props.id}>
      {shortId(props.id)}
    </a>
  );
}

function KeyLink(props: { id: string | null; name: string | null }) {
  if (props.id === null) return <span class="muted">–</span>;
  return (
    <a href={href("/keys", { show: props.id })} title={props.id}>
      <bdi>{props.name ?? shortId(props.id)}</bdi>
    </a>
  );
}
