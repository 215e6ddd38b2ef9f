// Who changed or looked at what, the newest first, page by page; and, for whoever may ask, whether the log is as it was
// written and whether the ledger agrees with its totals. Below it, what the gateway has reported.
import { useState } from "preact/hooks";
import { get } from "../lib/api";
import { readDetail } from "../lib/audit";
import { plural, shortId } from "../lib/format";
import { useLoad } from "../lib/load";
import { may, seesAll } from "../lib/permission";
import { go, href, query } from "../lib/route";
import type { AuditView, Page as Rows } from "../lib/types";
import { At, Button, Empty, Page, Panel, Problem, Serial, Waiting } from "../ui/parts";
import { Table } from "../ui/table";
import { useWorkspaces, WorkspaceSelect, type Workspaces } from "../ui/workspaces";
import { Alerts } from "./audit/alerts";
import { Checks } from "./audit/checks";

const LIMIT = 50;

function adjust(change: Record<string, string | null>, replace = true): void {
  go("/audit", { ...Object.fromEntries(query.value), ...change }, { replace });
}

export function Audit() {
  const asked = query.value;
  const workspace = asked.get("workspace");
  const before = asked.get("before");
  const { data, error, isLoading, reload } = useLoad((abort) => get<Rows<AuditView>>("/api/audit", { workspace, before, limit: LIMIT }, abort), [workspace, before]);
  const workspaces = useWorkspaces();
  const choose = (chosen: string) => adjust({ workspace: chosen || null, before: null }, false);
  const choice = seesAll() && <WorkspaceSelect label="Workspace" all="All workspaces" value={workspace ?? ""} workspaces={workspaces} onChange={choose} />;
  return (
    <Page title="Audit" about="Who changed or read what. The log is append-only; each row contains a hash of the previous one.">
      {may("accounting.check") && <Checks />}
      <Problem error={error} onRetry={reload} />
      <Panel title="Log" flush class="audit" actions={choice}>
        {data ? <Log page={data} workspaces={workspaces} isOlder={before !== null} isLoading={isLoading} /> : !error && <Waiting />}
      </Panel>
      {may("alerts.read") && <Alerts key={workspace} workspace={workspace} workspaces={workspaces} />}
    </Page>
  );
}

function Log(props: { page: Rows<AuditView>; workspaces: Workspaces; isOlder: boolean; isLoading: boolean }) {
  const [text, setText] = useState("");
  const { data, next } = props.page;
  const rows = data.filter((row) => isMeant(row, text));
  if (!data.length) {
    return <Empty title={props.isOlder ? "No older rows." : "No entries yet."}>Sign-ins, changes of keys and credit, and reads of stored content are recorded here.</Empty>;
  }
  return (
    <>
      <div class="row within">
        <input type="search" aria-label="Filter the rows on this page" placeholder="Filter this page" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {text && (
          <span class="muted" role="status">
            {rows.length} of the {plural(data.length, "row")} on this page
          </span>
        )}
      </div>
      <Table
        label="Audit log"
        rows={rows}
        keyOf={(row) => row.seq}
        columns={[
          { name: "No.", isNumber: true, show: (row) => <Serial number={row.seq} /> },
          { name: "Time", class: "nowrap", show: (row) => <At at={row.at_ms} /> },
          { name: "Who", class: "clip", show: (row) => <span title={row.actor}><Who row={row} /></span> },
          { name: "Action", class: "nowrap", show: (row) => <code>{row.action}</code> },
          { name: "What", class: "clip", show: (row) => <What row={row} /> },
          {
            name: "Workspace",
            class: "clip",
            show: ({ workspace }) => (workspace === null ? <span class="muted">–</span> : <span title={workspace}>{props.workspaces.nameOf(workspace)}</span>),
          },
          { name: "Detail", class: "detail", show: (row) => <Detail row={row} nameOf={(id) => row.names[id] ?? props.workspaces.nameOf(id)} /> },
        ]}
      />
      <nav class="pager" aria-label="Pages of the log">
        {props.isOlder && <Button onClick={() => adjust({ before: null }, false)}>Newest</Button>}
        <Button disabled={next === null || props.isLoading} onClick={() => adjust({ before: String(next) }, false)}>
          Older
        </Button>
      </nav>
    </>
  );
}

function isMeant(row: AuditView, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return !wanted || [row.actor, row.actor_name ?? "", row.action, row.object, row.object_name ?? "", row.workspace ?? "", JSON.stringify(row.detail)].some((each) => each.toLowerCase().includes(wanted));
}

// A request is found on a page of its own.
function What(props: { row: AuditView }) {
  const { action, object, object_name } = props.row;
  const isRequest = action === "request.cancel" || action === "content.read" || action === "content.delete";
  const text = (
    <span class={object_name === null ? "mono" : ""} title={object}>
      <bdi>{object_name ?? shortId(object)}</bdi>
    </span>
  );
  return isRequest ? <a href={href(`/requests/${encodeURIComponent(object)}`)}>{text}</a> : text;
}

// A person may have any name: what else acts is told apart by a word before it.
function Who(props: { row: AuditView }) {
  const { actor, actor_name } = props.row;
  if (actor_name !== null) return <>key <bdi>{actor_name}</bdi></>;
  return actor.startsWith("person:") ? <>person <bdi>{actor.slice(7)}</bdi></> : <>{actor}</>;
}

function Detail(props: { row: AuditView; nameOf: (id: string) => string }) {
  const members = readDetail(props.row.detail, props.nameOf);
  if (!members.length) return <span class="muted">–</span>;
  return (
    <ul class="members flowing">
      {members.map(({ name, text }) => (
        <li key={name}>
          <span class="muted">{name}</span> <Member name={name} text={text} />
        </li>
      ))}
    </ul>
  );
}

function Member(props: { name: string; text: string }) {
  if (props.name !== "request_id") return <span class="break">{props.text}</span>;
  return <a class="mono" href={href(`/requests/${encodeURIComponent(props.text)}`)} title={props.text}>{shortId(props.text)}</a>;
}
