// One person: the role, the open sessions, and what can be done. The server keeps the last owner; it is told why.
import { useState } from "preact/hooks";
import { get, patch, post, remove, session, withQuery } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { may, ROLES } from "../../lib/permission";
import { href } from "../../lib/route";
import { useSending } from "../../lib/sending";
import type { InvitedView, OpenSessionView, Page as Rows, PersonView } from "../../lib/types";
import { Ago, At, Button, Confirm, Dialog, Facts, Problem, Waiting } from "../../ui/parts";
import { Sessions } from "../../ui/sessions";
import { State } from "./state";

export type Deed = "change" | "disable" | "reset" | "remove";

const pathOf = (id: string) => `/api/people/${encodeURIComponent(id)}`;

// Why this one cannot be changed from here. Null: it can.
function whyFixed(person: PersonView): string | null {
  if (!may("people.change")) return "Your role may look at people. It may not change them.";
  if (person.id === session.value?.person) return "This is you. Your password and your sessions are under Account; the rest is changed by another owner or admin.";
  if (person.role !== "member" && !may("people.appoint")) return "Only owners can change people with another role than member.";
  return null;
}

function waysOf({ has_password, has_provider_role, is_federated }: PersonView): string {
  if (has_provider_role) return "at the identity provider, which says the role";
  if (is_federated) return has_password ? "at the identity provider, or with a password" : "at the identity provider";
  return has_password ? "with a password" : "not yet";
}

export function PersonDetail(props: { id: string; nameOf: (workspace: string) => string; onDeed: (deed: Deed, person: PersonView) => void; onChange: () => void; onClose: () => void }) {
  const { data: person, error, reload } = useLoad((abort) => get<PersonView>(pathOf(props.id), {}, abort), [props.id]);
  const open = useLoad((abort) => get<Rows<OpenSessionView>>(`${pathOf(props.id)}/sessions`, {}, abort), [props.id]);
  const { error: refusal, isBusy, send } = useSending(() => {
    reload();
    open.reload();
    props.onChange();
  });
  const fixed = person && whyFixed(person);
  const mayEnd = person !== null && !fixed && Boolean(open.data?.data.length);
  return (
    <Dialog title={person?.name ?? "Person"} wide onClose={props.onClose}>
      <Problem error={error} onRetry={reload} />
      {!person ? (
        !error && <Waiting />
      ) : (
        <div class="form">
          <Facts
            rows={[
              ["State", <State person={person} />],
              ["Role", ROLES[person.role]],
              ["Workspace", person.workspace === null ? "all" : <bdi>{props.nameOf(person.workspace)}</bdi>],
              ["Signs in", waysOf(person)],
              person.email === null ? null : ["E-mail", <bdi>{person.email}</bdi>],
              ["Last sign-in", <Ago at={person.seen_ms} />],
              ["Created", <At at={person.created_ms} />],
              ["Id", <span class="mono">{person.id}</span>],
            ]}
          />
          <div class="spread">
            <h3>Open sessions</h3>
            {mayEnd && (
              <Button small disabled={isBusy} onClick={() => void send(() => remove(`${pathOf(person.id)}/sessions`))}>
                End all
              </Button>
            )}
          </div>
          <Problem error={open.error ?? refusal} />
          {open.data && (
            <Sessions
              rows={open.data.data}
              onEnd={may("people.appoint") && !fixed ? (id) => void send(() => remove(`/api/sessions/${encodeURIComponent(id)}`)) : null}
            />
          )}
          {fixed ? (
            <p class="muted">
              {fixed} {person.id === session.value?.person && <a href={href("/account")}>Account</a>}
            </p>
          ) : (
            <div class="actions">
              {may("people.appoint") && !person.has_provider_role && <Button onClick={() => props.onDeed("change", person)}>Change</Button>}
              {!person.has_provider_role && <Button onClick={() => props.onDeed("reset", person)}>{resetOf(person)}</Button>}
              {person.disabled_ms === null ? (
                <Button tone="bad" onClick={() => props.onDeed("disable", person)}>
                  Disable
                </Button>
              ) : (
                <Button disabled={isBusy} onClick={() => void send(() => patch(pathOf(person.id), { disabled: false }))}>
                  Enable
                </Button>
              )}
              <Button tone="bad" onClick={() => props.onDeed("remove", person)}>
                Remove
              </Button>
            </div>
          )}
        </div>
      )}
    </Dialog>
  );
}

interface Asked<T = void> {
  person: PersonView;
  onDone: (result: T) => void;
  onClose: () => void;
}

function resetOf({ has_password, is_federated }: PersonView): string {
  return has_password ? "Reset password" : is_federated ? "Reset sign-in" : "New invitation";
}

export function Reset(props: Asked<InvitedView>) {
  const { id, name, has_password, is_federated } = props.person;
  return (
    <Confirm
      title={has_password ? `Reset the password of ${name}?` : is_federated ? `Reset how ${name} signs in?` : `A new invitation for ${name}?`}
      action={resetOf(props.person)}
      onConfirm={async () => props.onDone(await post<InvitedView>(`${pathOf(id)}/invite`))}
      onClose={props.onClose}
    >
      <p>
        {has_password || is_federated
          ? "The password and all sessions end now. A link is shown once, with which a new password is chosen."
          : "The link that was given out is not valid any more. A new one is shown once."}
        {is_federated && " The account at the identity provider is forgotten: the next one with the e-mail address is taken."}
      </p>
    </Confirm>
  );
}

export function Disable(props: Asked) {
  const { id, name } = props.person;
  return (
    <Confirm title={`Disable ${name}?`} action="Disable" onConfirm={async () => props.onDone(void (await patch(pathOf(id), { disabled: true })))} onClose={props.onClose}>
      <p>All sessions end now, and the person cannot sign in until somebody enables it again. Its keys are refused until then.</p>
    </Confirm>
  );
}

export function Removal(props: Asked) {
  const { id, name } = props.person;
  const [revoke_keys, setRevoke] = useState(true);
  return (
    <Confirm title={`Remove ${name}?`} action="Remove permanently" onConfirm={async () => props.onDone(void (await remove(withQuery(pathOf(id), { revoke_keys }))))} onClose={props.onClose}>
      <p>The password and all sessions end now. The name is never used again, because the audit log has it. This cannot be undone.</p>
      <label class="check">
        <input type="checkbox" checked={revoke_keys} onChange={(event) => setRevoke(event.currentTarget.checked)} />
        <span>
          Revoke its keys
          <span class="hint block">Otherwise they stay in the workspace and go on to work, and the person knows their secrets.</span>
        </span>
      </label>
    </Confirm>
  );
}
