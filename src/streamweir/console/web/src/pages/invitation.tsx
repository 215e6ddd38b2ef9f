// Where somebody who is invited chooses a password, and is signed in. The token is in the fragment of the link, which no
// server and no log is told.
import { useEffect, useMemo } from "preact/hooks";
import { logIn, post, session } from "../lib/api";
import { moment } from "../lib/format";
import { useLoad } from "../lib/load";
import { nameOf, ROLES } from "../lib/permission";
import { go, href } from "../lib/route";
import type { InvitationView } from "../lib/types";
import { keepWay } from "../lib/way";
import { Gate } from "../ui/gate";
import { ProviderButton, useProvider } from "../ui/provider";
import { Problem, Waiting } from "../ui/parts";
import { PasswordForm } from "../ui/password";

export function Invitation() {
  const invitation = useMemo(() => location.hash.slice(1), []);
  const { data, error, reload } = useLoad(() => (invitation ? post<InvitationView>("/api/invitation/show", { invitation }) : Promise.resolve(null)), []);
  useEffect(() => {
    const again = () => location.reload(); // another link in the same tab
    addEventListener("hashchange", again);
    return () => removeEventListener("hashchange", again);
  }, []);
  const provider = useProvider();
  const who = session.value;
  const accept = (password: string) => logIn("/api/invitation", { invitation, password });
  const done = () => {
    keepWay("name");
    go("/", {}, { replace: true });
  };
  return (
    <Gate title="Invitation">
      {!invitation ? (
        <p>This link is not complete. Copy all of it, with what stands behind the #.</p>
      ) : error ? (
        <>
          <Problem error={error} {...(error.status === 401 ? {} : { onRetry: reload })} />
          <p>
            Have you chosen your password already? <a href={href("/")}>Sign in</a>. Otherwise ask whoever has invited you for a new link.
          </p>
        </>
      ) : !data ? (
        <Waiting />
      ) : (
        <>
          <p>
            Welcome, <strong><bdi>{data.name}</bdi></strong>. You are invited with the role {ROLES[data.role]}
            {data.workspace_name !== null && (
              <>
                {" "}
                of the workspace <bdi>{data.workspace_name}</bdi>
              </>
            )}
            . Choose a password: with it and this name you sign in from now on.
          </p>
          {who && <p class="notice">You are signed in here as {nameOf(who)}. That session ends.</p>}
          {provider !== null && data.email !== null && (
            <div class="provider">
              <p>
                You need no password if your account at <bdi>{provider}</bdi> has the address <bdi>{data.email}</bdi>:
              </p>
              <ProviderButton name={provider} />
              <p class="or muted small">or</p>
            </div>
          )}
          <PasswordForm name={data.name} action="Choose and sign in" onSend={accept} onDone={done} />
          <p class="muted small">The invitation is valid until {moment(data.until_ms)}.</p>
        </>
      )}
    </Gate>
  );
}
