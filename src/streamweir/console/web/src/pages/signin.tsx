// Where everybody begins. The secret is sent once and kept nowhere on the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { hasEnded, signIn, type ApiError } from "../lib/api";
import { asError } from "../lib/load";
import { Button, Field, Problem } from "../ui/parts";

export function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  const [secret, setSecret] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Streamweir";
    input.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setIsBusy(true);
    setError(null);
    try {
      await signIn(secret.trim());
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
      input.current?.select();
    }
  };
  return (
    <main class="signin" id="main">
      <form class="panel" onSubmit={submit}>
        <div class="panel-body">
          <h1 class="brand">
            <span class="brand-mark" aria-hidden="true" />
            Streamweir
          </h1>
          {hasEnded.value && !error && (
            <p class="notice" role="status">
              The session has ended. Sign in again to continue.
            </p>
          )}
          <input type="text" name="username" autocomplete="username" value="streamweir" readOnly hidden />
          <Field
            label="Admin secret or admin key"
            hint={
              <>
                The first start of the gateway printed the secret; <code>streamweir admin reset-secret</code> creates a new one. A key works if it has the
                scope <code>admin</code>.
              </>
            }
          >
            {(id, hintId) => (
              <input
                id={id}
                ref={input}
                aria-describedby={hintId}
                type="password"
                name="secret"
                autocomplete="current-password"
                required
                maxLength={256}
                value={secret}
                onInput={(event) => setSecret(event.currentTarget.value)}
              />
            )}
          </Field>
          <Problem error={error} />
          <Button type="submit" tone="accent" disabled={isBusy || !secret.trim()}>
            {isBusy ? "Signing in …" : "Sign in"}
          </Button>
        </div>
      </form>
    </main>
  );
}
