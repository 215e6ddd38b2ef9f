// Payments that were asked for at the payment provider, the newest first, and what became of them. Left out if there are none.
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { alignedDollars, decimalsOf } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { query } from "../../lib/route";
import type { Page as Rows, PaymentView } from "../../lib/types";
import { At, Badge, Button, Panel, Problem, type Tone } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Workspaces } from "../../ui/workspaces";

const LIMIT = 20;
const TONES: Record<string, Tone> = { paid: "good", open: "accent" };

export function Payments(props: { workspaces: Workspaces; turn: number }) {
  const workspace = query.value.get("workspace");
  const [cursor, setCursor] = useState<string | null>(null);
  const { data, error, isLoading, reload } = useLoad((abort) => get<Rows<PaymentView>>("/api/payments", { workspace, cursor, limit: LIMIT }, abort), [workspace, cursor, props.turn]);
  if (error === null && !data?.data.length && cursor === null) return null;
  const decimals = decimalsOf((data?.data ?? []).map((row) => row.amount_usd));
  return (
    <Panel title="Payments" flush class="dense">
      <Problem error={error} onRetry={reload} />
      {data && (
        <Table<PaymentView>
          label="Payments"
          rows={data.data}
          keyOf={(row) => row.id}
          columns={[
            { name: "Asked for", class: "nowrap", show: (row) => <At at={row.created_ms} /> },
            { name: "Payment", show: (row) => <Id id={row.id} /> },
            { name: "Workspace", class: "clip narrow", show: (row) => <span title={row.workspace}>{props.workspaces.nameOf(row.workspace)}</span> },
            { name: "Amount", isNumber: true, show: (row) => alignedDollars(row.amount_usd, decimals) },
            { name: "State", show: (row) => <Badge tone={TONES[row.status] ?? "plain"}>{row.status}</Badge> },
            { name: "Paid", class: "nowrap", show: (row) => <At at={row.paid_ms} /> },
            { name: "Session", show: (row) => (row.session_id === null ? <span class="muted">–</span> : <Id id={row.session_id} />) },
          ]}
        />
      )}
      {data && (data.next !== null || cursor !== null) && (
        <nav class="pager" aria-label="Pages of payments">
          {cursor !== null && <Button onClick={() => setCursor(null)}>Newest payments</Button>}
          <Button disabled={data.next === null || isLoading} onClick={() => setCursor(String(data.next))}>
            Older payments
          </Button>
        </nav>
      )}
    </Panel>
  );
}

function Id(props: { id: string }) {
  return (
    <span class="mono nowrap" title={props.id}>
      {props.id.length > 14 ? `…${props.id.slice(-8)}` : props.id}
    </span>
  );
}
