// The people: who signs in by name, with which role, and since when not. Whom one looks at is in the address; the link of
// an invitation is shown once, and nowhere else.
import { useState } from "preact/hooks";
import { get, remove, session } from "../lib/api";
import { useLoad } from "../lib/load";
import { may, ROLES, seesAll } from "../lib/permission";
import { go, href, query } from "../lib/route";
import { useSending } from "../lib/sending";
import type { InvitedView, NamedSessionView, Page as Rows, PersonView } from "../lib/types";
import { Ago, Badge, Button, Dialog, Empty, Once, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Sessions } from "../ui/sessions";
import { Table } from "../ui/table";
import { useWorkspaces, WorkspaceSelect } from "../ui/workspaces";
import { Disable, PersonDetail, Removal, Reset, type Deed } from "./people/detail";
import { PersonForm } from "./people/form";
import { State } from "./people/state";

const LIMIT = 50;

function adjust(change: Record<string, string | null>, replace = true): void {
  go("/people", { ...Object.fromEntries(query.value), ...change }, { replace });
}

export function People() {
  const workspace = query.value.get("workspace");
  const cursor = query.value.get("cursor");
  const shown = query.value.get("show");
  const { data, error, isLoading, reload } = useLoad((abort) => get<Rows<PersonView>>("/api/people", { workspace, cursor, limit: LIMIT }, abort), [workspace, cursor]);
  const workspaces = useWorkspaces();
  const [deed, setDeed] = useState<{ deed: Deed; person: PersonView | null } | null>(null);
  const [made, setMade] = useState<InvitedView | null>(null);
  const close = () => setDeed(null);
  const done = (invited: InvitedView | null = null) => {
    close();
    setMade(invited);
    reload();
  };
  const invite = may("people.change") && (
    <Button tone="accent" onClick={() => setDeed({ deed: "change", person: null })}>
      Invite somebody
    </Button>
  );
  return (
    <Page title="People" about="Who signs in by name. The role says what a person may do." actions={invite}>
      {seesAll() && (
        <div class="filters">
          <WorkspaceSelect label="Workspace" all="All workspaces" value={workspace ?? ""} workspaces={workspaces} onChange={(id) => adjust({ workspace: id || null, cursor: null }, false)} />
        </div>
      )}
      <Problem error={error} onRetry={reload} />
      {!data ? (
        isLoading && <Waiting />
      ) : (
        <Panel flush class="dense">
          {data.data.length ? (
            <Table<PersonView>
              label="People"
              rows={data.data}
              keyOf={(person) => person.id}
              dimmed={(person) => person.disabled_ms !== null}
              columns={[
                {
                  name: "Name",
                  class: "clip",
                  show: (person) => (
                    <span title={person.name}>
                      <a href={href("/people", { workspace, cursor, show: person.id })}>
                        <bdi>{person.name}</bdi>
                      </a>{" "}
                      {person.id === session.value?.person && <Badge tone="accent">you</Badge>}
                    </span>
                  ),
                },
                { name: "Role", class: "nowrap", show: (person) => ROLES[person.role] },
                { name: "Workspace", class: "clip narrow", show: (person) => (person.workspace === null ? <span class="muted">all</span> : <bdi>{workspaces.nameOf(person.workspace)}</bdi>) },
                { name: "State", show: (person) => <State person={person} /> },
                { name: "Last sign-in", class: "nowrap", show: (person) => <Ago at={person.seen_ms} /> },
              ]}
            />
          ) : workspace || cursor ? (
            <Empty title="Nobody here" action={<a href={href("/people")}>Show everybody</a>} />
          ) : (
            <Empty title="Nobody is invited yet">Until then one signs in with the admin secret, which may do everything.</Empty>
          )}
          {(data.next !== null || cursor !== null) && (
            <nav class="pager" aria-label="Pages of people">
              {cursor !== null && <Button onClick={() => adjust({ cursor: null }, false)}>First page</Button>}
              <Button disabled={data.next === null || isLoading} onClick={() => adjust({ cursor: String(data.next) }, false)}>
                Next page
              </Button>
            </nav>
          )}
        </Panel>
      )}
      {data && may("people.appoint") && <OpenSessions turn={data} />}
      {made ? (
        <Link made={made} onClose={() => setMade(null)} />
      ) : deed?.deed === "change" ? (
        <PersonForm person={deed.person} workspaces={workspaces} onDone={done} onClose={close} />
      ) : deed?.person && deed.deed === "reset" ? (
        <Reset person={deed.person} onDone={done} onClose={close} />
      ) : deed?.person && deed.deed === "remove" ? (
        <Removal
          person={deed.person}
          onDone={() => {
            adjust({ show: null });
            done();
          }}
          onClose={close}
        />
      ) : deed?.person ? (
        <Disable person={deed.person} onDone={() => done()} onClose={close} />
      ) : (
        shown !== null && <PersonDetail id={shown} nameOf={workspaces.nameOf} onDeed={(deed, person) => setDeed({ deed, person })} onChange={reload} onClose={() => adjust({ show: null })} />
      )}
    </Page>
  );
}

// Of everyone: also of the admin secret and of keys, which are nobody's. `turn`: another one may have ended some.
function OpenSessions(props: { turn: unknown }) {
  const { data, error, reload } = useLoad((abort) => get<Rows<NamedSessionView>>("/api/sessions", {}, abort), [props.turn]);
  const ending = useSending(reload);
  return (
    <Panel title="Open sessions" flush class="dense">
      <Problem error={ending.error ?? error} />
      {data ? <Sessions rows={data.data} who={(row) => <Owner row={row} />} onEnd={(id) => void ending.send(() => remove(`/api/sessions/${encodeURIComponent(id)}`))} /> : !error && <Waiting />}
    </Panel>
  );
}

function Owner(props: { row: NamedSessionView }) {
  const { person, key, name } = props.row;
  if (person !== null) return <a href={href("/people", { show: person })}><bdi>{name}</bdi></a>;
  if (key !== null) return <>Key <a href={href("/keys", { show: key })}><bdi>{name}</bdi></a></>;
  return <>Admin secret</>;
}

function Link(props: { made: InvitedView; onClose: () => void }) {
  const { name, invitation } = props.made;
  return (
    <Dialog title={`The invitation of ${name}`} wide onClose={props.onClose}>
      <div class="form">
        <p>
          <strong>Copy the link now: it is not shown again.</strong> Whoever has it chooses the password, once, within three days. Give it to <bdi>{name}</bdi> alone.
        </p>
        <Once label="Link" text={`${location.origin}${href("/invitation")}#${invitation}`} />
        <div class="dialog-actions">
          <Button tone="accent" onClick={props.onClose}>
            I have it
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
