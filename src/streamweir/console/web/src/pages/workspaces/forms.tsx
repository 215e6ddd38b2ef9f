// A workspace made or changed, and credit given to one. Amounts are text all the way: no float lies between.
import { useState } from "preact/hooks";
import { patch, post } from "../../lib/api";
import { dollars, exactDollars } from "../../lib/format";
import { fieldOf, isAmount } from "../../lib/keyform";
import { useSending } from "../../lib/sending";
import type { BalanceView as Balance, Workspace } from "../../lib/types";
import { Button, Dialog, Field, Problem } from "../../ui/parts";

// `workspace`: the one to change. None: a new one.
export function WorkspaceForm(props: { workspace: Workspace | null; onDone: () => void; onClose: () => void }) {
  const { workspace } = props;
  const [name, setName] = useState(workspace?.name ?? "");
  const [isPrepaid, setIsPrepaid] = useState(workspace?.prepaid ?? false);
  const [group, setGroup] = useState(workspace?.price_group ?? "");
  const { error, isBusy, send } = useSending(props.onDone);
  const told = fieldOf(error?.param ?? null);
  const submit = (event: Event) => {
    event.preventDefault();
    const members: Record<string, unknown> = { name: name.trim(), prepaid: isPrepaid, price_group: group.trim() || null };
    if (!workspace) return void send(() => post("/api/workspaces", members));
    const before: Record<string, unknown> = { ...workspace };
    const changed = Object.fromEntries(Object.entries(members).filter(([name, value]) => before[name] !== value));
    void send(() => (Object.keys(changed).length ? patch(`/api/workspaces/${encodeURIComponent(workspace.id)}`, changed) : Promise.resolve()));
  };
  return (
    <Dialog title={workspace ? `Change ${workspace.name}` : "New workspace"} onClose={props.onClose}>
      <form class="form" onSubmit={submit}>
        <Field label="Name" error={told === "name" ? (error?.message ?? null) : null}>
          {(id, hintId) => (
            <input id={id} aria-describedby={hintId} required autofocus maxLength={64} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />
          )}
        </Field>
        <label class="check">
          <input type="checkbox" checked={isPrepaid} onChange={(event) => setIsPrepaid(event.currentTarget.checked)} />
          <span>
            Prepaid
            <span class="hint block">Its keys can spend only granted credit; without credit, requests are refused. Otherwise spending is recorded and limited only by the budgets of keys.</span>
          </span>
        </label>
        <Field label="Price group" hint="What its requests are sold by, of the configuration. Empty: the default." error={told === "price_group" ? (error?.message ?? null) : null}>
          {(id, hintId) => (
            <input id={id} aria-describedby={hintId} maxLength={64} autocomplete="off" spellcheck={false} value={group} onInput={(event) => setGroup(event.currentTarget.value)} />
          )}
        </Field>
        {error && told !== "name" && told !== "price_group" && <Problem error={error} />}
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" tone="accent" disabled={isBusy || !name.trim()}>
            {workspace ? "Save" : "Create workspace"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function TopUp(props: { balance: Balance; onDone: () => void; onClose: () => void }) {
  const { balance } = props;
  const [amount, setAmount] = useState("");
  const [note, setNote] = useState("");
  const { error, isBusy, send } = useSending(props.onDone);
  const told = fieldOf(error?.param ?? null);
  const text = amount.trim();
  const isOdd = text !== "" && !isAmount(text, true);
  const takes = text.startsWith("-");
  const amountError = isOdd && text !== "-" ? "Dollars, such as 100 or 12.50." : told === "amount_usd" ? (error?.message ?? null) : null;
  const submit = (event: Event) => {
    event.preventDefault();
    void send(() => post("/api/credits", { workspace: balance.workspace, amount_usd: text, note: note.trim() }));
  };
  return (
    <Dialog title={`Credit for ${balance.name}`} onClose={props.onClose}>
      <form class="form" onSubmit={submit}>
        <p class="muted">
          {balance.prepaid
            ? `${dollars(balance.balance_usd)} left of ${dollars(balance.granted_usd)} granted.`
            : `Not prepaid: ${dollars(balance.spent_usd)} spent, ${dollars(balance.granted_usd)} granted. Credit limits spending only in a prepaid workspace.`}
        </p>
        <Field label="Amount in dollars" hint={takes ? "Takes back credit that was granted before." : "A negative amount corrects an earlier one."} error={amountError}>
          {(id, hintId) => (
            <input
              id={id}
              aria-describedby={hintId}
              aria-invalid={Boolean(amountError)}
              class="mono"
              inputMode="decimal"
              required
              autofocus
              autocomplete="off"
              value={amount}
              onInput={(event) => setAmount(event.currentTarget.value)}
            />
          )}
        </Field>
        <Field label="Note" hint="Shown in the ledger." error={told === "note" ? (error?.message ?? null) : null}>
          {(id, hintId) => <input id={id} aria-describedby={hintId} maxLength={500} autocomplete="off" value={note} onInput={(event) => setNote(event.currentTarget.value)} />}
        </Field>
        {error && told !== "amount_usd" && told !== "note" && <Problem error={error} />}
        <div class="dialog-actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" tone={takes ? "bad" : "accent"} disabled={isBusy || !text || isOdd}>
            {takes ? "Take back" : "Grant"} {text && !isOdd ? exactDollars(text.replace("-", "")) : ""}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
