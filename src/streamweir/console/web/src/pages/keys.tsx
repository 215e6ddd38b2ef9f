// The keys: who may ask, for what, how much, and what they have spent of it. Filters, page and the key that is looked at
// are in the address; a secret never is.
import { useState } from "preact/hooks";
import { get } from "../lib/api";
import { day, moment, short } from "../lib/format";
import { useLoad } from "../lib/load";
import { isMember, mayCreateKeys, scoped, seesAll } from "../lib/permission";
import { go, href, query } from "../lib/route";
import { LIMITS } from "../lib/limits";
import type { KeyView as Key, NewKeyView as NewKey, Page as Rows } from "../lib/types";
import { Button, Choice, Empty, Money, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Table } from "../ui/table";
import { useWorkspaces, WorkspaceSelect } from "../ui/workspaces";
import { Erase, KeyDetail, Revoke, Rotate, whyFixed, type Deed } from "./keys/detail";
import { CreateKey, CreateOwnKey, EditKey } from "./keys/form";
import { Secret } from "./keys/secret";
import { LastUsed, Spend, State } from "./keys/show";

const LIMIT = 50;
type Which = "active" | "expired" | "revoked" | "all";
const STATES: readonly string[] = ["expired", "revoked", "all"];

function adjust(change: Record<string, string | null>, replace = true): void {
  go("/keys", { ...Object.fromEntries(query.value), ...change }, { replace });
}

export function Keys() {
  const asked = query.value;
  const which = (STATES.find((each) => each === asked.get("state")) ?? "active") as Which;
  const workspace = asked.get("workspace");
  const cursor = asked.get("cursor");
  const { data, error, isLoading, reload } = useLoad(
    (abort) => get<Rows<Key>>(scoped("/keys"), { workspace, state: which === "all" ? null : which, cursor, limit: LIMIT }, abort),
    [workspace, which, cursor],
  );
  const workspaces = useWorkspaces();
  const [deed, setDeed] = useState<{ deed: Deed; key: Key } | null>(null);
  const [made, setMade] = useState<NewKey | null>(null);
  const isFiltered = which !== "active" || workspace !== null;
  const done = () => {
    setDeed(null);
    reload();
  };
  const created = (key: NewKey) => {
    setMade(key);
    adjust({ new: null });
    reload();
  };
  return (
    <Page
      title="Keys"
      about={isMember() ? "Your own keys. Your programs send one with each request." : "Each caller has a key. A key has models, limits and a budget, and its requests are billed to it."}
      actions={
        mayCreateKeys() && (
          <Button tone="accent" onClick={() => adjust({ new: "1" })}>
            Create a key
          </Button>
        )
      }
    >
      <div class="filters">
        <Choice<Which>
          label="Which keys"
          value={which}
          options={[
            ["active", "Active"],
            ["expired", "Expired"],
            ["revoked", "Revoked"],
            ["all", "All"],
          ]}
          onChange={(state) => adjust({ state: state === "active" ? null : state, cursor: null }, false)}
        />
        {seesAll() && (
          <WorkspaceSelect label="Workspace" all="All workspaces" value={workspace ?? ""} workspaces={workspaces} onChange={(id) => adjust({ workspace: id || null, cursor: null }, false)} />
        )}
      </div>
      <Problem error={error} onRetry={reload} />
      {!data ? (
        isLoading && <Waiting />
      ) : (
        <Panel flush class="dense">
          {data.data.length ? (
            <KeyTable rows={data.data} nameOf={workspaces.nameOf} onDeed={(deed, key) => setDeed({ deed, key })} />
          ) : (
            <NoKeys isFiltered={isFiltered} isFirst={cursor === null} />
          )}
          {(data.next !== null || cursor !== null) && (
            <nav class="pager" aria-label="Pages of keys">
              {cursor !== null && <Button onClick={() => adjust({ cursor: null }, false)}>First page</Button>}
              <Button disabled={data.next === null || isLoading} onClick={() => adjust({ cursor: String(data.next) }, false)}>
                Newer keys
              </Button>
            </nav>
          )}
        </Panel>
      )}
      {made ? (
        <Secret made={made} onClose={() => setMade(null)} />
      ) : deed?.deed === "edit" ? (
        <EditKey apiKey={deed.key} onDone={done} onClose={() => setDeed(null)} />
      ) : deed?.deed === "rotate" ? (
        <Rotate
          apiKey={deed.key}
          onDone={(key) => {
            setMade(key);
            done();
          }}
          onClose={() => setDeed(null)}
        />
      ) : deed?.deed === "revoke" ? (
        <Revoke apiKey={deed.key} onDone={done} onClose={() => setDeed(null)} />
      ) : deed?.deed === "erase" ? (
        <Erase apiKey={deed.key} onClose={() => setDeed(null)} />
      ) : asked.has("new") && mayCreateKeys() ? (
        isMember() ? (
          <CreateOwnKey onDone={created} onClose={() => adjust({ new: null })} />
        ) : (
          <CreateKey workspaces={workspaces} workspace={seesAll() ? (workspace ?? "default") : ""} onDone={created} onClose={() => adjust({ new: null })} />
        )
      ) : (
        asked.has("show") && (
          <KeyDetail
            id={asked.get("show") ?? ""}
            nameOf={workspaces.nameOf}
            onDeed={(which, key) => setDeed({ deed: which, key })}
            onClose={() => adjust({ show: null })}
          />
        )
      )}
    </Page>
  );
}

function KeyTable(props: { rows: readonly Key[]; nameOf: (id: string) => string; onDeed: (deed: Deed, key: Key) => void }) {
  const { nameOf } = props;
  const [deed, what]: [Deed, string] = isMember() ? ["revoke", "Revoke"] : ["edit", "Change"];
  const here = Object.fromEntries(query.value);
  return (
    <Table<Key>
      label="Keys"
      rows={props.rows}
      keyOf={(key) => key.id}
      dimmed={(key) => key.revoked_ms !== null}
      columns={[
        {
          name: "Name",
          class: "clip",
          show: (key) => (
            <>
              <a href={href("/keys", { ...here, show: key.id })} title={key.name}>
                {key.name}
              </a>
              <div class="muted small mono">…{key.last4}</div>
            </>
          ),
        },
        seesAll() && { name: "Workspace", class: "clip narrow", show: (key: Key) => <span title={nameOf(key.workspace)}>{nameOf(key.workspace)}</span> },
        { name: "Models", class: "clip", show: (key) => <May apiKey={key} /> },
        { name: "Limits", class: "nowrap", show: (key) => <Limits apiKey={key} /> },
        { name: "Budget", show: (key) => <Spend apiKey={key} /> },
        { name: "Spend in 30 days", head: <ThirtyDays what="Spend" />, isNumber: true, show: (key) => <Money usd={key.recent_price_usd} /> },
        {
          name: "Requests in 30 days",
          head: <ThirtyDays what="Requests" />,
          isNumber: true,
          show: (key) => (
            <a href={href("/requests", { key: key.id })} aria-label={`${short(key.recent_requests)} requests of ${key.name}`}>
              {short(key.recent_requests)}
            </a>
          ),
        },
        { name: "Last used", class: "nowrap", show: (key) => <LastUsed apiKey={key} /> },
        {
          name: "State",
          show: (key) => (
            <>
              <State apiKey={key} />
              {key.expires_ms !== null && key.revoked_ms === null && (
                <div class="muted small nowrap" title={moment(key.expires_ms)}>
                  until {day(key.expires_ms)}
                </div>
              )}
            </>
          ),
        },
        {
          name: "Actions",
          head: <span class="visually-hidden">Actions</span>,
          class: "end",
          show: (key) => (
            <span class="actions">
              {key.revoked_ms === null && !whyFixed(key) && (
                <Button small aria-label={`${what} ${key.name}`} onClick={() => props.onDeed(deed, key)}>
                  {what}
                </Button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function ThirtyDays(props: { what: string }) {
  return (
    <span title="In the last 30 days, by UTC">
      {props.what} <span class="muted">30 d</span>
    </span>
  );
}

function May(props: { apiKey: Key }) {
  const { models, scopes } = props.apiKey;
  const text = models === null ? "every model" : models.join(", ") || "no model";
  return (
    <>
      <span title={text}>{text}</span>
      <div class="muted small">{scopes.join(", ")}</div>
    </>
  );
}

function Limits(props: { apiKey: Key }) {
  const lines = LIMITS.flatMap(({ name, brief }) => (props.apiKey[name] === null ? [] : [`${short(props.apiKey[name])} ${brief}`]));
  if (!lines.length) return <span class="muted">none</span>;
  return (
    <div class="small">
      {lines.map((line) => (
        <div key={line}>{line}</div>
      ))}
    </div>
  );
}

function NoKeys(props: { isFiltered: boolean; isFirst: boolean }) {
  if (!props.isFirst) return <Empty title="No newer keys" />;
  if (props.isFiltered) return <Empty title="No key matches" action={<a href={href("/keys")}>Show all active keys</a>} />;
  return (
    <Empty title="No keys yet" action={mayCreateKeys() && <Button onClick={() => adjust({ new: "1" })}>Create the first key</Button>}>
      Callers send it as <code>Authorization: Bearer …</code>. You can limit it to some models, to a rate and to a budget.
    </Empty>
  );
}
