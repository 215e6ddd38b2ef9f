// What became of a request, in words, and all that the log knows of it.
import { bytes, count, duration, preciseMoment } from "../../lib/format";
import { explain, explainFlag, WHOSE } from "../../lib/explain";
import { href } from "../../lib/route";
import type { RequestDetail } from "../../lib/types";
import { CopyButton, Facts, Panel } from "../../ui/parts";
import { useWorkspaces } from "../../ui/workspaces";

export function Outcome(props: { row: RequestDetail }) {
  const { row } = props;
  const { what, whose, todo } = explain(row.verdict, row.error);
  return (
    <Panel
      title="What became of it"
      actions={
        <span class="muted small">
          Status {row.status || "none"}
          {row.error && (
            <>
              {" · "}
              <code>{row.error}</code>
            </>
          )}
        </span>
      }
    >
      <div class="outcome">
        <p>{what}</p>
        {(whose || todo) && (
          <p class="muted">
            {whose && <strong>{WHOSE[whose]}. </strong>}
            {todo}
          </p>
        )}
        {row.flags.map((flag) => (
          <p class="muted" key={flag}>
            <strong>Odd: </strong>
            {explainFlag(flag)}
          </p>
        ))}
      </div>
    </Panel>
  );
}

export function FactsPanel(props: { row: RequestDetail }) {
  const { row } = props;
  const { nameOf } = useWorkspaces();
  const gaps = [row.gap_p50_ms, row.gap_p99_ms, row.gap_max_ms].map(duration);
  return (
    <Panel title="Facts" class="one-facts">
      <Facts
        rows={[
          ["Arrived", <span class="num">{preciseMoment(row.at_ms)}</span>],
          ["Model, as asked for", named(row.model, row.model && { model: row.model })],
          ["Target", named(row.target, row.target && { target: row.target })],
          ["Key", named(row.key_name ?? row.key_id, row.key_id && { key: row.key_id })],
          ["Workspace", named(row.workspace && nameOf(row.workspace), row.workspace && { workspace: row.workspace })],
          ["Dialect", row.dialect ?? "–"],
          ["Finish reason", row.finish ?? "–"],
          row.service_tier === null ? null : ["Service tier", <bdi>{row.service_tier}</bdi>],
          row.chunks === null ? null : ["Pieces from the provider", count(row.chunks)],
          row.chunks === null || row.chunks < 2 ? null : ["Between them", `p50 ${gaps[0]}, p99 ${gaps[1]}, longest ${gaps[2]}`],
          ["Body in", bytes(row.bytes_in)],
          ["Body out", bytes(row.bytes_out)],
          row.completion_id === null ? null : ["Id in the chunks", <Id id={row.completion_id} />],
          row.client_id === null ? null : ["The caller's own id", <Id id={row.client_id} />],
          ["Caller's address", row.peer ?? "–"],
          ["Client", row.client === null ? "–" : <bdi>{row.client}</bdi>],
          row.node === null ? null : ["Node", <bdi>{row.node}</bdi>],
          row.dropped.length === 0 ? null : ["Left out, for the target cannot take it", <code>{row.dropped.join(", ")}</code>],
        ]}
      />
    </Panel>
  );
}

function Id(props: { id: string }) {
  return (
    <span class="row">
      <code>{props.id}</code>
      <CopyButton text={props.id} />
    </span>
  );
}

// With a link to all requests that have it in common.
function named(name: string | null, filter: Record<string, string> | "" | null) {
  if (name === null) return "–";
  const text = <bdi>{name}</bdi>;
  return filter ? (
    <a href={href("/requests", filter)} title="All requests with this">
      {text}
    </a>
  ) : (
    text
  );
}
