// What became of a request, in words, and all that the log knows of it.
import { nameOfApi } from "../../lib/apis";
import { bytes, count, duration, plural, preciseMoment } from "../../lib/format";
import { explain, explainFlag, WHOSE } from "../../lib/explain";
import { isMember } from "../../lib/permission";
import { href } from "../../lib/route";
import type { RequestDetail } from "../../lib/types";
import { CopyableId, Facts, Panel } from "../../ui/parts";
import { useWorkspaces } from "../../ui/workspaces";

export function Outcome(props: { row: RequestDetail }) {
  const { row } = props;
  const { what, whose, todo } = explain(row.verdict, row.error);
  return (
    <Panel
      title="Outcome"
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
            <strong>Note: </strong>
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
    <Panel title="Details" class="one-facts">
      <Facts
        rows={[
          ["Arrived", <span class="num">{preciseMoment(row.at_ms)}</span>],
          ["Requested model", named(row.model, row.model && { model: row.model })],
          row.target === null ? null : ["Target", named(row.target, { target: row.target })],
          ["Key", named(row.key_name ?? row.key_id, row.key_id && { key: row.key_id })],
          isMember() ? null : ["Workspace", named(row.workspace && nameOf(row.workspace), row.workspace && { workspace: row.workspace })],
          row.end_user === null ? null : ["End user", named(row.end_user, { end_user: row.end_user })],
          row.session === null ? null : ["Session", named(row.session, { session: row.session })],
          row.tags.length === 0 ? null : ["Tags", <span class="row">{row.tags.map((tag) => named(tag, { tag }))}</span>],
          ["API", row.dialect === null ? "–" : nameOfApi(row.dialect)],
          row.finish === null ? null : ["Finish reason", row.finish],
          row.service_tier === null ? null : ["Service tier", <bdi>{row.service_tier}</bdi>],
          row.chunks === null ? null : ["Chunks from the provider", count(row.chunks)],
          row.chunks === null || row.chunks < 2 ? null : ["Time between chunks", `p50 ${gaps[0]}, p99 ${gaps[1]}, longest ${gaps[2]}`],
          ["Request body", bytes(row.bytes_in)],
          ["Response body", bytes(row.bytes_out)],
          row.completion_id === null ? null : ["Id in the answer", <CopyableId id={row.completion_id} />],
          row.client_id === null ? null : ["Caller's request id", <CopyableId id={row.client_id} />],
          ["Caller's address", row.peer ?? "–"],
          ["Client", row.client === null ? "–" : <bdi>{row.client}</bdi>],
          row.resumed === null ? null : ["Readers that came back", count(row.resumed)],
          row.reader_gap_count === null ? null : ["Nobody read it", row.reader_gap_count ? plural(row.reader_gap_count, "time") : "never"],
          row.node === null ? null : ["Node", <bdi>{row.node}</bdi>],
          row.dropped.length === 0 ? null : ["Dropped from the request (not supported by the target, or left out by its settings)", <code>{row.dropped.join(", ")}</code>],
        ]}
      />
    </Panel>
  );
}

// With a link to all requests that have it in common.
function named(name: string | null, filter: Record<string, string> | "" | null) {
  if (name === null) return "–";
  const text = <bdi>{name}</bdi>;
  return filter ? (
    <a href={href("/requests", filter)} title="Show all requests with this value">
      {text}
    </a>
  ) : (
    text
  );
}
