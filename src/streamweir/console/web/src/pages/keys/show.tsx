// How a key stands, in the table and on its own.
import { dollars, exactDollars, moment } from "../../lib/format";
import { stateOf } from "../../lib/keyform";
import { useNow } from "../../lib/load";
import type { KeyView as Key } from "../../lib/types";
import { Ago, Badge, Meter } from "../../ui/parts";

const PER: Record<string, string> = { day: "today", week: "this week", month: "this month", total: "in total" };

export function State(props: { apiKey: Key }) {
  const key = props.apiKey;
  const now = useNow(60_000);
  const state = stateOf(key, now);
  const isTurning = state === "Active" && key.old_until_ms !== null && key.old_until_ms > now;
  return (
    <span class="row">
      <Badge tone={state === "Active" ? "good" : state === "Expired" ? "warn" : "bad"}>{state}</Badge>
      {isTurning && <Badge title={`The previous secret is valid until ${moment(key.old_until_ms ?? 0)}`}>two secrets</Badge>}
      {key.origin === "file" && <Badge title="Defined in the configuration file">file</Badge>}
      {key.log_content && (
        <Badge tone="warn" title="Prompts and answers are stored">
          content stored
        </Badge>
      )}
    </span>
  );
}

// When it was used last; the sums of old requests know the hour alone.
export function LastUsed(props: { apiKey: Key }) {
  return props.apiKey.used_ms === null ? <span class="muted">never</span> : <Ago at={props.apiKey.used_ms} />;
}

export function Spend(props: { apiKey: Key }) {
  const key = props.apiKey;
  if (key.budget_usd === null) return <span class="muted">no budget</span>;
  const [spent, held, most] = [Number(key.spent_usd ?? 0), Number(key.held_usd ?? 0), Number(key.budget_usd)];
  const exact = `${exactDollars(key.spent_usd)} spent, ${exactDollars(key.held_usd)} reserved by open requests, of ${exactDollars(key.budget_usd)}`;
  return (
    <div class="spend" title={exact}>
      <Meter used={spent} held={held} most={most} label={exact} />
      <div class="small">
        {dollars(spent)}
        {held > 0 && <span class="muted"> + {dollars(held)} reserved</span>}
        <span class="muted">
          {" "}
          of {dollars(most)} {PER[key.budget_period ?? "total"] ?? key.budget_period}
        </span>
      </div>
    </div>
  );
}
