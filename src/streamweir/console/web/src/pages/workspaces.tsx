// Workspaces: who owns keys and pays for them. What each was given, has spent and has left, and the ledger that says why.
import { useState } from "preact/hooks";
import { get } from "../lib/api";
import { dollars, exactDollars } from "../lib/format";
import { useLoad } from "../lib/load";
import { may } from "../lib/permission";
import { go, href, query } from "../lib/route";
import type { BalanceView as Balance, Page as Rows } from "../lib/types";
import { Badge, Button, Empty, Meter, Money, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Table } from "../ui/table";
import { useWorkspaces } from "../ui/workspaces";
import { TopUp, WorkspaceForm } from "./workspaces/forms";
import { Ledger } from "./workspaces/ledger";
import { Payments } from "./workspaces/payments";

type Deed = { what: "new" } | { what: "edit" | "credit"; balance: Balance };

export function Workspaces() {
  const cursor = query.value.get("cursor");
  const { data, error, isLoading, reload } = useLoad((abort) => get<Rows<Balance>>("/api/credits", { cursor, limit: 100 }, abort), [cursor]);
  const workspaces = useWorkspaces();
  const [deed, setDeed] = useState<Deed | null>(null);
  const [turn, setTurn] = useState(0);
  const turnTo = (next: string | null) => go("/workspaces", { ...Object.fromEntries(query.value), cursor: next });
  const done = () => {
    setDeed(null);
    setTurn((before) => before + 1);
    reload();
    workspaces.reload();
  };
  return (
    <Page
      title="Workspaces and credit"
      about="A workspace owns keys and a balance. A prepaid workspace can spend only its credit."
      actions={
        may("workspaces.change") && (
          <Button tone="accent" onClick={() => setDeed({ what: "new" })}>
            Create a workspace
          </Button>
        )
      }
    >
      <Problem error={error} onRetry={reload} />
      {!data ? (
        isLoading && <Waiting />
      ) : (
        <Panel flush class="dense" title="Balances">
          {data.data.length ? <Balances rows={data.data} onDeed={setDeed} /> : <Empty title="No more workspaces" />}
          {(data.next !== null || cursor !== null) && (
            <nav class="pager" aria-label="Pages of workspaces">
              {cursor !== null && <Button onClick={() => turnTo(null)}>First page</Button>}
              <Button disabled={data.next === null || isLoading} onClick={() => turnTo(String(data.next))}>
                Next page
              </Button>
            </nav>
          )}
        </Panel>
      )}
      <Payments key={query.value.get("workspace")} workspaces={workspaces} turn={turn} />
      <Ledger workspaces={workspaces} turn={turn} />
      {deed?.what === "credit" ? (
        <TopUp balance={deed.balance} onDone={done} onClose={() => setDeed(null)} />
      ) : (
        deed && <WorkspaceForm workspace={deed.what === "edit" ? (workspaces.list.find((each) => each.id === deed.balance.workspace) ?? null) : null} onDone={done} onClose={() => setDeed(null)} />
      )}
    </Page>
  );
}

function Balances(props: { rows: readonly Balance[]; onDeed: (deed: Deed) => void }) {
  const amount = (usd: string) => <Money usd={usd} />;
  return (
    <Table<Balance>
      label="Balances"
      rows={props.rows}
      keyOf={(row) => row.workspace}
      columns={[
        {
          name: "Workspace",
          class: "clip",
          show: (row) => (
            <a href={href("/keys", { workspace: row.workspace })} title={`The keys of ${row.name} (${row.workspace})`}>
              {row.name}
            </a>
          ),
        },
        { name: "Billing", show: (row) => (row.prepaid ? <Badge tone="accent">prepaid</Badge> : <Badge>postpaid</Badge>) },
        { name: "Granted", isNumber: true, show: (row) => amount(row.granted_usd) },
        { name: "Spent", isNumber: true, show: (row) => amount(row.spent_usd) },
        { name: "Reserved", isNumber: true, show: (row) => amount(row.held_usd) },
        { name: "Balance", isNumber: true, show: (row) => <Left row={row} /> },
        { name: "Used", show: (row) => <Used row={row} /> },
        {
          name: "Actions",
          head: <span class="visually-hidden">Actions</span>,
          class: "end",
          show: (row) => (
            <span class="actions">
              <a class="small" href={href("/requests", { workspace: row.workspace })} aria-label={`Requests of ${row.name}`}>
                Requests
              </a>
              {may("credit.grant") && (
                <Button small aria-label={`Top up ${row.name}`} onClick={() => props.onDeed({ what: "credit", balance: row })}>
                  Top up
                </Button>
              )}
              {may("workspaces.change") && (
                <Button small aria-label={`Change ${row.name}`} onClick={() => props.onDeed({ what: "edit", balance: row })}>
                  Change
                </Button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function Left(props: { row: Balance }) {
  const { row } = props;
  if (!row.prepaid && Number(row.granted_usd) === 0) return <span class="muted">–</span>;
  const isGone = row.prepaid && Number(row.balance_usd) <= 0;
  return (
    <span class={isGone ? "bad" : ""} title={exactDollars(row.balance_usd)}>
      {dollars(row.balance_usd)}
      {isGone && <div class="small">no credit left</div>}
    </span>
  );
}

function Used(props: { row: Balance }) {
  const { row } = props;
  if (!row.prepaid) return <span class="muted small">no limit</span>;
  const label = `${exactDollars(row.spent_usd)} spent and ${exactDollars(row.held_usd)} reserved of ${exactDollars(row.granted_usd)} granted`;
  return (
    <div class="spend" title={label}>
      <Meter used={Number(row.spent_usd)} held={Number(row.held_usd)} most={Number(row.granted_usd)} label={label} />
    </div>
  );
}
