// The fields in which a new password is chosen, and the form around them. It is typed twice, and kept nowhere.
import { useState } from "preact/hooks";
import { useSending } from "../lib/sending";
import { Button, Field, Problem } from "./parts";

interface Props {
  name: string; // for the browser, which may keep the password
  isChange?: boolean; // of one that is known
  action: string;
  onSend: (chosen: string, old: string) => Promise<unknown>;
  onDone?: () => void;
}

export function PasswordForm(props: Props) {
  const [typed, setTyped] = useState({ old: "", chosen: "", again: "" });
  const [hasTried, setHasTried] = useState(false);
  const { error, isBusy, send } = useSending(() => {
    setTyped({ old: "", chosen: "", again: "" });
    setHasTried(false);
    props.onDone?.();
  });
  const isBad = error?.code === "invalid_value";
  const differs = hasTried && typed.chosen !== typed.again;
  const submit = (event: Event) => {
    event.preventDefault();
    setHasTried(true);
    if (typed.chosen === typed.again) void send(() => props.onSend(typed.chosen, typed.old));
  };
  const field = (name: keyof typeof typed, label: string, hint: string, wrong: string | null) => (
    <Field label={label} hint={hint} error={wrong}>
      {(id, hintId) => (
        <input
          id={id}
          aria-describedby={hintId}
          aria-invalid={wrong !== null}
          type="password"
          autocomplete={name === "old" ? "current-password" : "new-password"}
          required
          maxLength={1024}
          value={typed[name]}
          onInput={(event) => setTyped({ ...typed, [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  return (
    <form class="form" onSubmit={submit}>
      <input type="text" autocomplete="username" value={props.name} readOnly hidden />
      {props.isChange && field("old", "Current password", "", null)}
      {field("chosen", "New password", "At least twelve characters, and not made of your name.", isBad ? error.message : null)}
      {field("again", "New password again", "", differs ? "The two are not the same." : null)}
      {!isBad && <Problem error={error} />}
      <div>
        <Button type="submit" tone="accent" disabled={isBusy}>
          {props.action}
        </Button>
      </div>
    </form>
  );
}
