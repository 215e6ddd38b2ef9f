// The small parts that every page is made of. Whatever they are given is text.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApiError } from "../lib/api";
import { ago, dollars, exactDollars, moment, outcome, preciseMoment } from "../lib/format";
import { useNow } from "../lib/load";

export type Tone = "plain" | "good" | "warn" | "bad" | "accent";

export function Page(props: { title: string; head?: ComponentChildren; about?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${props.title} · Streamweir`;
  }, [props.title]);
  return (
    <div class="page">
      <header class="page-head">
        <div>
          <h1>{props.head ?? props.title}</h1>
          {props.about && <p class="muted">{props.about}</p>}
        </div>
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}

export function Panel(props: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; flush?: boolean; class?: string }) {
  return (
    <section class={`panel ${props.flush ? "flush" : ""} ${props.class ?? ""}`}>
      {(props.title || props.actions) && (
        <header class="panel-head">
          <h2>{props.title}</h2>
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      <div class="panel-body">{props.children}</div>
    </section>
  );
}

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "class"> & { tone?: "plain" | "accent" | "bad" | "quiet"; small?: boolean };

export function Button({ tone = "plain", small, type = "button", ...rest }: ButtonProps) {
  return <button type={type} class={`button ${tone} ${small ? "small" : ""}`} {...rest} />;
}

export function Badge(props: { tone?: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge ${props.tone ?? "plain"}`} title={props.title}>
      {props.children}
    </span>
  );
}

const VERDICTS: Record<string, Tone> = {
  completed: "good",
  length: "warn",
  filtered: "warn",
  client_gone: "plain",
  rejected: "warn",
  stopped: "warn",
  shutdown: "warn",
};

export function toneOf(verdict: string): Tone {
  return VERDICTS[verdict] ?? "bad";
}

export function Verdict(props: { verdict: string; error?: string | null }) {
  return (
    <Badge tone={toneOf(props.verdict)} {...(props.error ? { title: props.error } : {})}>
      {outcome(props.verdict)}
    </Badge>
  );
}

// A moment: how long ago, and exactly when on hovering.
export function Ago(props: { at: number | null }) {
  const now = useNow(5000);
  if (props.at === null) return <span class="muted">–</span>;
  return (
    <time dateTime={new Date(props.at).toISOString()} title={preciseMoment(props.at)}>
      {ago(props.at, now)}
    </time>
  );
}

export function At(props: { at: number | null }) {
  if (props.at === null) return <span class="muted">–</span>;
  return (
    <time class="num" dateTime={new Date(props.at).toISOString()} title={preciseMoment(props.at)}>
      {moment(props.at)}
    </time>
  );
}

// The number of a row. Where a row is a card it is the heading, and is said to be a number.
export function Serial(props: { number: number }) {
  return (
    <>
      <span class="card-only">No. </span>
      {props.number}
    </>
  );
}

// How much of a limit is used. `held` is what open requests may still take.
export function Meter(props: { used: number; held?: number; most: number; label: string }) {
  const { used, held = 0, most } = props;
  const share = most > 0 ? Math.min(1, used / most) : 1;
  const heldShare = most > 0 ? Math.min(1 - share, held / most) : 0;
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "accent";
  return (
    <div class={`meter ${tone}`} role="meter" aria-label={props.label} aria-valuemin={0} aria-valuemax={most} aria-valuenow={Math.min(used, most)}>
      <span style={{ width: `${100 * share}%` }} />
      <span class="held" style={{ width: `${100 * heldShare}%` }} />
    </div>
  );
}

// An amount, rounded as all are, and to the last digit on hovering.
export function Money(props: { usd: string | null | undefined; more?: string; class?: string | undefined }) {
  return (
    <span class={props.class} title={`${exactDollars(props.usd)}${props.more ?? ""}`}>
      {dollars(props.usd)}
    </span>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <div class="muted">{props.children}</div>}
      {props.action && <div class="actions">{props.action}</div>}
    </div>
  );
}

export function Problem(props: { error: ApiError | null; onRetry?: () => void }) {
  if (props.error === null) return null;
  return (
    <div class="problem" role="alert">
      <span>{props.error.message}</span>
      {props.onRetry && (
        <Button small onClick={props.onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Waiting() {
  return <p class="muted waiting">Loading …</p>;
}

export function Field(props: { label: string; hint?: ComponentChildren; error?: string | null; children: (id: string, hintId: string) => ComponentChildren }) {
  const id = useId();
  const hintId = `${id}-hint`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id, hintId)}
      <div id={hintId} class={props.error ? "hint bad" : "hint"}>
        {props.error ?? props.hint}
      </div>
    </div>
  );
}

export function Select<T extends string>(props: {
  id?: string;
  label?: string; // where no <label> names it
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <select id={props.id} aria-label={props.label} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value as T)}>
      {props.options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

// One of a few, as buttons in a row.
export function Choice<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

// Without TLS a browser lends its clipboard to pages of this machine alone: elsewhere one selects by hand.
export function CopyButton(props: { text: string | (() => string); label?: string; small?: boolean }) {
  const [told, setTold] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof props.text === "string" ? props.text : props.text());
      setTold("Copied");
    } catch {
      setTold("Copying is not allowed");
    }
    setTimeout(() => setTold(""), 1500);
  };
  return (
    <Button small={props.small ?? true} onClick={copy} aria-live="polite">
      {told || (props.label ?? "Copy")}
    </Button>
  );
}

// An id, with a button that copies it.
export function CopyableId(props: { id: string }) {
  return (
    <span class="row">
      <code>{props.id}</code>
      <CopyButton text={props.id} />
    </span>
  );
}

// What is shown once, to be copied.
export function Once(props: { label: string; text: string }) {
  return (
    <div class="secret">
      <input class="mono" aria-label={props.label} readOnly autocomplete="off" spellcheck={false} value={props.text} onFocus={(event) => event.currentTarget.select()} />
      <CopyButton text={props.text} small={false} />
    </div>
  );
}

// A dialog of the browser's own: it keeps the focus, and Escape closes it.
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} class={props.wide ? "wide" : ""} aria-labelledby={titleId} onClose={props.onClose}>
      <header class="panel-head">
        <h2 id={titleId}>{props.title}</h2>
        <button type="button" class="button quiet small" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      <div class="panel-body">{props.children}</div>
    </dialog>
  );
}

// What cannot be undone is asked once more.
export function Confirm(props: { title: string; children: ComponentChildren; action: string; onConfirm: () => Promise<unknown>; onClose: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const confirm = async () => {
    setIsBusy(true);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (reason) {
      setError(reason as ApiError);
      setIsBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      {props.children}
      <Problem error={error} />
      <div class="dialog-actions">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button tone="bad" disabled={isBusy} onClick={confirm}>
          {props.action}
        </Button>
      </div>
    </Dialog>
  );
}

// Facts as pairs. What is null is left out.
export function Facts(props: { rows: readonly (readonly [string, ComponentChildren] | null)[] }) {
  return (
    <dl class="facts">
      {props.rows.map(
        (row) =>
          row && (
            <div key={row[0]}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
