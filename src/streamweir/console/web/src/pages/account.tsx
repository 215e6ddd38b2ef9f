// The account of whoever has signed in by name: its password and its sessions. Nothing of others is here.
import { useState } from "preact/hooks";
import { get, logIn, loadSession, remove, session } from "../lib/api";
import { asError, useLoad } from "../lib/load";
import { ROLES } from "../lib/permission";
import { useSending } from "../lib/sending";
import type { OwnSessionView, OwnView, Page as Rows } from "../lib/types";
import { Ago, Button, Facts, Page, Panel, Problem, Waiting } from "../ui/parts";
import { PasswordForm } from "../ui/password";
import { Sessions } from "../ui/sessions";

export function Account() {
  const { data, error, reload } = useLoad((abort) => get<OwnView>("/api/me", {}, abort), []);
  const open = useLoad((abort) => get<Rows<OwnSessionView>>("/api/me/sessions", {}, abort), []);
  const ending = useSending(open.reload);
  const everywhere = async () => {
    await remove("/api/me/sessions");
    session.value = null;
  };
  return (
    <Page title="Account">
      <Problem error={error} onRetry={reload} />
      {!data ? (
        !error && <Waiting />
      ) : (
        <div class="columns even">
          <Panel title="You">
            <Facts
              rows={[
                ["Name", <bdi>{data.person.name}</bdi>],
                ["Role", ROLES[data.person.role]],
                data.workspace_name === null ? null : ["Workspace", <bdi>{data.workspace_name}</bdi>],
                data.person.email === null ? null : ["E-mail", <bdi>{data.person.email}</bdi>],
                ["Signed in", <Ago at={data.person.seen_ms} />],
              ]}
            />
          </Panel>
          <Panel title="Password">{data.person.has_password ? <Password name={data.person.name} onDone={open.reload} /> : <p class="muted">You sign in at the identity provider. There is no password here.</p>}</Panel>
        </div>
      )}
      <Panel
        title="Sessions"
        flush
        actions={
          <Button small disabled={ending.isBusy} onClick={() => void ending.send(everywhere)}>
            Sign out everywhere
          </Button>
        }
      >
        <Problem error={ending.error ?? open.error} />
        {open.data ? (
          <Sessions rows={open.data.data} onEnd={(id) => void ending.send(() => remove(`/api/me/sessions/${encodeURIComponent(id)}`))} />
        ) : (
          !open.error && <Waiting />
        )}
      </Panel>
    </Page>
  );
}

function Password(props: { name: string; onDone: () => void }) {
  const [isDone, setIsDone] = useState(false);
  const change = async (chosen: string, old: string) => {
    setIsDone(false);
    try {
      await logIn("/api/me/password", { old, new: chosen });
    } catch (reason) {
      if (asError(reason).status === 401) await loadSession(); // the session may have ended, too
      throw reason;
    }
    setIsDone(true);
  };
  return (
    <>
      <PasswordForm name={props.name} isChange action="Change password" onSend={change} onDone={props.onDone} />
      <p class="muted small" role="status">
        {isDone ? "The password is changed. Every other session has ended." : "Every other session ends with the change."}
      </p>
    </>
  );
}
