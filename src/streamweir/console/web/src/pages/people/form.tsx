// A person invited, or given another role or e-mail address. Who may not appoint invites members alone.
import { useState } from "preact/hooks";
import { patch, post } from "../../lib/api";
import { fieldOf } from "../../lib/keyform";
import { may, ROLES } from "../../lib/permission";
import { useSending } from "../../lib/sending";
import type { InvitedView, PersonView } from "../../lib/types";
import { Button, Dialog, Field, Problem, Select } from "../../ui/parts";
import { useProvider } from "../../ui/provider";
import { WorkspaceSelect, type Workspaces } from "../../ui/workspaces";

type PersonRole = PersonView["role"];
const ABOUT: Record<PersonRole, string> = {
  owner: "May do everything, also to people.",
  operator: "Runs the gateway: workspaces, keys, requests and their contents, costs. No people, no credit.",
  billing: "Credit, payments, costs and usage of all workspaces. No contents, no keys.",
  viewer: "Sees what happens in all workspaces, without contents and costs. Changes nothing.",
  admin: "The keys, requests, contents, payments and members of one workspace.",
  member: "Its own keys, usage, credit and requests in one workspace. Nothing of others.",
};
const ALL = Object.keys(ABOUT) as PersonRole[];

// `person`: the one to change. None: a new one.
export function PersonForm(props: { person: PersonView | null; workspaces: Workspaces; onDone: (invited: InvitedView | null) => void; onClose: () => void }) {
  const { person, workspaces } = props;
  const mayAppoint = may("people.appoint");
  const [name, setName] = useState("");
  const [role, setRole] = useState<PersonRole>(person?.role ?? (mayAppoint ? "viewer" : "member"));
  const [workspace, setWorkspace] = useState(person?.workspace ?? "");
  const [email, setEmail] = useState(person?.email ?? "");
  const provider = useProvider();
  const { error, isBusy, send } = useSending();
  const told = fieldOf(error?.param ?? null);
  const wrong = (field: string) => (told === field ? (error?.message ?? null) : null);
  const isOfOne = mayAppoint && (role === "admin" || role === "member");
  const of = workspace || workspaces.list[0]?.id || "";
  const loses = Boolean(person?.workspace) && person?.workspace !== (isOfOne ? of : null);
  const address = email.trim() || null;
  const members = {
    ...(person?.role === role && !loses ? {} : { role, ...(isOfOne ? { workspace: of } : {}) }),
    ...((person?.email ?? null) === address ? {} : { email: address }),
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void send(async () => props.onDone(person ? (await patch(`/api/people/${encodeURIComponent(person.id)}`, members), null) : await post<InvitedView>("/api/people", { name: name.trim(), ...members })));
  };
  return (
    <Dialog title={person ? `Change ${person.name}` : "Invite somebody"} onClose={props.onClose}>
      <form class="form" onSubmit={submit}>
        {!person && (
          <Field label="Name" hint="To sign in with, and for the audit log. It cannot be changed later." error={wrong("name")}>
            {(id, hintId) => (
              <input id={id} aria-describedby={hintId} required autofocus maxLength={64} autocomplete="off" spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />
            )}
          </Field>
        )}
        {mayAppoint ? (
          <Field label="Role" hint={ABOUT[role]} error={wrong("role")}>
            {(id) => <Select<PersonRole> id={id} value={role} options={ALL.map((each) => [each, ROLES[each]] as const)} onChange={setRole} />}
          </Field>
        ) : (
          <p class="muted">As a member of your workspace: {ABOUT.member}</p>
        )}
        {isOfOne && (
          <Field label="Workspace" error={wrong("workspace")}>
            {(id) => <WorkspaceSelect id={id} value={of} workspaces={workspaces} onChange={setWorkspace} />}
          </Field>
        )}
        {(provider !== null || person?.email) && (
          <Field label="E-mail address" hint={`Optional. Whose account at ${provider ?? "the identity provider"} has this address, verified, signs in as this person.`} error={wrong("email")}>
            {(id, hintId) => (
              <input id={id} aria-describedby={hintId} type="email" maxLength={254} autocomplete="off" value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
            )}
          </Field>
        )}
        {loses && <p class="warn">Whoever leaves a workspace loses the keys there: they are revoked. This cannot be undone.</p>}
        {!["name", "role", "workspace", "email"].includes(told ?? "") && <Problem error={error} />}
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" tone={loses ? "bad" : "accent"} disabled={isBusy}>
            {!person ? "Invite" : loses ? "Save and revoke keys" : "Save"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
