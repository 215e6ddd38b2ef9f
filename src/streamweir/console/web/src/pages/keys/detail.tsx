// One key: all that is set, what it has spent, and what can be done with it. Those of the configuration file are changed
// there alone; those with a scope that only owners and operators grant by these alone.
import { useState } from "preact/hooks";
import { get, post, remove, session, type ApiError } from "../../lib/api";
import { count, moment, plural } from "../../lib/format";
import { APPOINTED } from "../../lib/keyform";
import { asError, useLoad } from "../../lib/load";
import { isMember, may, scoped } from "../../lib/permission";
import { href } from "../../lib/route";
import { LIMITS } from "../../lib/limits";
import type { KeyView as Key, NewKeyView as NewKey, PersonView } from "../../lib/types";
import { At, Button, Confirm, Dialog, Facts, Field, Money, Problem, Select, Waiting } from "../../ui/parts";
import { LastUsed, Spend, State } from "./show";

export type Deed = "edit" | "rotate" | "revoke" | "erase";

// Why this one cannot be changed from here. Null: it can.
export function whyFixed(key: Key): string | null {
  if (isMember()) return null;
  if (!may("keys.change")) return "Your role may look at keys. It may not change them.";
  if (key.origin === "file") return "This key is defined in the configuration file. Change it there.";
  if (session.value?.actor === `key:${key.id}`) return "You are signed in with this key. A key cannot change itself.";
  const scope = key.scopes.find((each) => APPOINTED.includes(each));
  if (scope && !may("keys.appoint")) return `Only owners and operators can change keys with the scope ${scope}.`;
  return null;
}

export function KeyDetail(props: { id: string; nameOf: (workspace: string) => string; onDeed: (deed: Deed, key: Key) => void; onClose: () => void }) {
  const { data: key, error, reload } = useLoad((abort) => get<Key>(scoped(`/keys/${encodeURIComponent(props.id)}`), {}, abort), [props.id]);
  const fixed = key && whyFixed(key);
  return (
    <Dialog title={key?.name ?? "Key"} wide onClose={props.onClose}>
      <Problem error={error} onRetry={reload} />
      {!key ? (
        !error && <Waiting />
      ) : (
        <div class="form">
          <Facts
            rows={[
              ["State", <State apiKey={key} />],
              isMember() ? null : ["Workspace", props.nameOf(key.workspace)],
              isMember() || key.person === null ? null : ["Person", <Person id={key.person} />],
              ["Id", <span class="mono">{key.id}</span>],
              ["Secret", <span class="mono">…{key.last4}</span>],
              ["Scopes", key.scopes.join(", ")],
              ["Models", key.models === null ? "every model" : key.models.join(", ") || "none"],
              ["Dialect", key.dialect ?? "the server's default"],
              ...LIMITS.map(({ name, label }): [string, string] => [label, key[name] === null ? "no limit" : count(key[name])]),
              ["Budget", <Spend apiKey={key} />],
              ["Spend in 30 days", <Money usd={key.recent_price_usd} />],
              ["Requests in 30 days", count(key.recent_requests)],
              ["Last used", <LastUsed apiKey={key} />],
              ["Price group", key.price_group ?? "the workspace's"],
              ["Content", key.log_content ? "stored" : "not stored"],
              ["Routing", key.show_routing ? "shown in headers of answers" : "not shown to callers"],
              ["Cost", key.show_cost ? "shown in the usage of answers" : "shown on request"],
              ["Created", <At at={key.created_ms} />],
              ["Expires", key.expires_ms === null ? "never" : <At at={key.expires_ms} />],
              key.revoked_ms === null ? null : ["Revoked", <At at={key.revoked_ms} />],
              key.old_until_ms === null ? null : ["Old secret valid until", <At at={key.old_until_ms} />],
            ]}
          />
          {fixed && <p class="muted">{fixed}</p>}
          <div class="spread">
            <a href={href("/requests", { key: key.id })}>Requests</a>
            {!fixed && (
              <div class="actions">
                {key.revoked_ms === null && (
                  <>
                    {!isMember() && (
                      <>
                        <Button onClick={() => props.onDeed("edit", key)}>Change</Button>
                        <Button onClick={() => props.onDeed("rotate", key)}>Rotate</Button>
                      </>
                    )}
                    <Button tone="bad" onClick={() => props.onDeed("revoke", key)}>
                      Revoke
                    </Button>
                  </>
                )}
                {!isMember() && (
                  <Button tone="bad" onClick={() => props.onDeed("erase", key)}>
                    Erase content
                  </Button>
                )}
              </div>
            )}
          </div>
        </div>
      )}
    </Dialog>
  );
}

// Whose it is: with the person it ends. Whoever may not see people sees that there is one.
function Person(props: { id: string }) {
  const { data } = useLoad((abort) => (may("people.read") ? get<PersonView>(`/api/people/${encodeURIComponent(props.id)}`, {}, abort) : Promise.resolve(null)), [props.id]);
  return data ? <a href={href("/people", { show: props.id })}><bdi>{data.name}</bdi></a> : <span title={props.id}>a member</span>;
}

const GRACES = [
  ["0", "immediately"],
  ["3600", "in an hour"],
  ["86400", "in a day"],
  ["604800", "in a week"],
  ["2592000", "in 30 days"],
] as const;

export function Rotate(props: { apiKey: Key; onDone: (key: NewKey) => void; onClose: () => void }) {
  const { apiKey } = props;
  const [grace, setGrace] = useState("3600");
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const rotate = async (event: Event) => {
    event.preventDefault();
    setIsBusy(true);
    try {
      props.onDone(await post<NewKey>(`/api/keys/${encodeURIComponent(apiKey.id)}/rotate`, { grace_s: Number(grace) }));
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
    }
  };
  return (
    <Dialog title={`A new secret for ${apiKey.name}?`} onClose={props.onClose}>
      <form class="form" onSubmit={rotate}>
        <p>Limits and spend of the key stay the same. The new secret is shown once.</p>
        {apiKey.old_until_ms !== null && <p class="warn">A secret from an earlier rotation is valid until {moment(apiKey.old_until_ms)}; it ends now.</p>}
        <Field label="The current secret ends">{(id) => <Select<string> id={id} value={grace} options={GRACES} onChange={setGrace} />}</Field>
        <Problem error={error} />
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" tone="accent" disabled={isBusy}>
            Rotate
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function Revoke(props: { apiKey: Key; onDone: () => void; onClose: () => void }) {
  const { apiKey } = props;
  return (
    <Confirm
      title={`Revoke ${apiKey.name}?`}
      action="Revoke permanently"
      onConfirm={async () => {
        await post(scoped(`/keys/${encodeURIComponent(apiKey.id)}/revoke`));
        props.onDone();
      }}
      onClose={props.onClose}
    >
      <p>Requests with this key are refused from now on, and its open streams end. This cannot be undone.</p>
    </Confirm>
  );
}

interface Erased {
  requests: number;
  contents: number;
}

export function Erase(props: { apiKey: Key; onClose: () => void }) {
  const { apiKey } = props;
  const [done, setDone] = useState<Erased | null>(null);
  if (done) {
    return (
      <Dialog title="Erased" onClose={props.onClose}>
        <p>
          Erased the content of {plural(done.contents, "request")} and the caller's data of {plural(done.requests, "request")}.
        </p>
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Close</Button>
        </div>
      </Dialog>
    );
  }
  return <EraseQuestion apiKey={apiKey} onDone={setDone} onClose={props.onClose} />;
}

function EraseQuestion(props: { apiKey: Key; onDone: (erased: Erased) => void; onClose: () => void }) {
  const { apiKey } = props;
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const erase = async () => {
    setIsBusy(true);
    try {
      props.onDone(await remove<Erased>(`/api/keys/${encodeURIComponent(apiKey.id)}/content`));
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
    }
  };
  return (
    <Dialog title={`Erase the stored content of ${apiKey.name}?`} onClose={props.onClose}>
      <div class="form">
        <p>This deletes stored prompts, answers and frames, and the caller's data (addresses, client names). The requests and their cost stay. This cannot be undone.</p>
        <Problem error={error} />
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button tone="bad" disabled={isBusy} onClick={erase}>
            Erase
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
