// Where everybody begins: people at the identity provider or by name and password, others with the admin secret or a key.
// What is typed is sent once and kept nowhere on the page; which of the two ways it was is remembered by the browser.
import { useEffect, useRef, useState } from "preact/hooks";
import { hasEnded, logIn, signIn, type ApiError } from "../lib/api";
import { asError } from "../lib/load";
import { keepWay, keptWay, type Way } from "../lib/way";
import { Button, Choice, Field, Problem } from "../ui/parts";
import { Gate } from "../ui/gate";
import { ProviderGate } from "../ui/provider";

const WAYS = [
  ["name", "Name and password"],
  ["secret", "Secret or key"],
] as const;

export function SignIn() {
  const box = useRef<HTMLFormElement>(null);
  const [way, setWay] = useState(keptWay);
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const isByName = way === "name";
  const first = () => box.current?.querySelector<HTMLInputElement>(".field input");
  useEffect(() => {
    first()?.focus();
  }, [way]);
  const choose = (chosen: Way) => {
    setWay(chosen);
    setSecret("");
    setError(null);
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    setIsBusy(true);
    setError(null);
    try {
      await (isByName ? logIn("/api/login", { name: name.trim(), password: secret }) : signIn(secret.trim()));
      keepWay(way);
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
      box.current?.querySelector<HTMLInputElement>("input[type=password]")?.select();
    }
  };
  return (
    <Gate title="Sign in">
      {hasEnded.value && !error && (
        <p class="notice" role="status">
          The session has ended. Sign in again to continue.
        </p>
      )}
      <ProviderGate />
      <Choice<Way> label="Sign in with" value={way} options={WAYS} onChange={choose} />
      <form key={way} ref={box} class="form" onSubmit={submit}>
        {isByName ? (
          <Field label="Name">
            {(id) => (
              <input id={id} name="username" autocomplete="username" autocapitalize="none" spellcheck={false} required maxLength={256} value={name} onInput={(event) => setName(event.currentTarget.value)} />
            )}
          </Field>
        ) : (
          <input type="text" name="username" autocomplete="username" value="streamweir" readOnly hidden />
        )}
        <Field
          label={isByName ? "Password" : "Admin secret or admin key"}
          hint={
            isByName ? (
              "Forgotten? An owner can reset it, and gives you a link to choose a new one."
            ) : (
              <>
                The first start of the gateway printed the secret; <code>streamweir admin reset-secret</code> creates a new one. A key works if it has the
                scope <code>admin</code>.
              </>
            )
          }
        >
          {(id, hintId) => (
            <input
              id={id}
              aria-describedby={hintId}
              type="password"
              name="secret"
              autocomplete="current-password"
              required
              maxLength={1024}
              value={secret}
              onInput={(event) => setSecret(event.currentTarget.value)}
            />
          )}
        </Field>
        <Problem error={error} />
        <Button type="submit" tone="accent" disabled={isBusy || !secret.trim() || (isByName && !name.trim())}>
          {isBusy ? "Signing in …" : "Sign in"}
        </Button>
      </form>
    </Gate>
  );
}
