// What the gateway has reported: each alert, and what became of it at the webhooks. The newest first, page by page.
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { readAlert } from "../../lib/alert";
import { plural } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { AlertView, DeliveryView, Page as Rows } from "../../lib/types";
import { At, Badge, Button, Empty, Panel, Problem, Waiting, type Tone } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Workspaces } from "../../ui/workspaces";

const LIMIT = 20;
const GOOD_NEWS = ["provider.back", "error_rate.normal", "ledger.current"];
const STATES: Record<DeliveryView["state"], [Tone, string]> = { delivered: ["good", "delivered"], waiting: ["warn", "waits"], given_up: ["bad", "given up"] };

export function Alerts(props: { workspace: string | null; workspaces: Workspaces }) {
  const { workspace, workspaces } = props;
  const [before, setBefore] = useState<number | null>(null);
  const { data, error, isLoading, reload } = useLoad((abort) => get<Rows<AlertView>>("/api/alerts", { workspace, before, limit: LIMIT }, abort), [workspace, before]);
  return (
    <Panel title="Alerts" flush class="audit">
      <Problem error={error} onRetry={reload} />
      {!data ? (
        !error && <Waiting />
      ) : !data.data.length ? (
        <Empty title={before === null ? "No alerts yet" : "No older alerts"}>Budgets and credit that run low, providers that fail, and what else is reported to webhooks is listed here.</Empty>
      ) : (
        <Table<AlertView>
          label="Alerts"
          rows={data.data}
          keyOf={(row) => row.seq}
          columns={[
            { name: "Time", class: "nowrap", show: (row) => <At at={row.at_ms} /> },
            { name: "Alert", class: "nowrap", show: (row) => <Badge tone={GOOD_NEWS.includes(row.kind) ? "good" : "warn"}>{row.kind}</Badge> },
            { name: "Workspace", class: "clip", show: ({ workspace }) => (workspace === null ? <span class="muted">–</span> : <span title={workspace}>{workspaces.nameOf(workspace)}</span>) },
            { name: "Detail", class: "detail", show: (row) => <Detail data={row.data} /> },
            { name: "Webhooks", show: (row) => <Deliveries rows={row.deliveries} /> },
          ]}
        />
      )}
      {data && (data.next !== null || before !== null) && (
        <nav class="pager" aria-label="Pages of alerts">
          {before !== null && <Button onClick={() => setBefore(null)}>Newest alerts</Button>}
          <Button disabled={data.next === null || isLoading} onClick={() => setBefore(Number(data.next))}>
            Older alerts
          </Button>
        </nav>
      )}
    </Panel>
  );
}

function Detail(props: { data: Record<string, unknown> }) {
  return (
    <ul class="members flowing">
      {readAlert(props.data).map(({ name, text }) => (
        <li key={name}>
          <span class="muted">{name}</span> <bdi class="break">{text}</bdi>
        </li>
      ))}
    </ul>
  );
}

function Deliveries(props: { rows: readonly DeliveryView[] }) {
  if (!props.rows.length) return <span class="muted">none</span>;
  return (
    <ul class="members flowing">
      {props.rows.map((row) => (
        <li key={row.webhook}>
          <bdi>{row.webhook}</bdi>{" "}
          <Badge tone={STATES[row.state][0]} title={`${plural(row.attempts, "attempt")}${row.error ? `; the last failure: ${row.error}` : ""}`}>
            {STATES[row.state][1]}
          </Badge>
        </li>
      ))}
    </ul>
  );
}
