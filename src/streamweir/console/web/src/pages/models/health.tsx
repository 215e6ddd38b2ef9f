// How a target does, in a word that needs no colour.
import { duration } from "../../lib/format";
import type { TargetState, TargetView } from "../../lib/types";
import { Badge, type Tone } from "../../ui/parts";

interface Health {
  state: TargetState;
  away_for_s: number;
  is_limited?: boolean;
}

const WORDS: Record<TargetState, readonly [string, Tone, string]> = {
  well: ["healthy", "good", "Gets requests as usual"],
  probation: ["probing", "warn", "Failed recently: the next request decides"],
  away: ["ejected", "bad", "Failed too often and gets no requests for a while"],
};

export function State(props: Health) {
  const [word, tone, about] = WORDS[props.state] ?? [props.state, "plain", ""];
  const isAway = props.state === "away" && props.away_for_s > 0;
  return (
    <Badge tone={props.is_limited ? "warn" : tone} title={props.is_limited ? "The provider asked for a pause (rate limit)" : about}>
      {props.is_limited ? "paused" : word}
      {isAway && ` for ${duration(1000 * props.away_for_s)}`}
    </Badge>
  );
}

// A provider has an API of its own, which is not named, and some have others.
const APIS: Partial<Record<TargetView["wire"], string>> = { converse: "Converse", messages: "Messages", responses: "Responses" };

export function Wire(props: { wire: TargetView["wire"] }) {
  const api = APIS[props.wire];
  return api ? <Badge title={`Asked through the provider's ${api} API`}>{api}</Badge> : null;
}

export function Latency(props: { seconds: number | null }) {
  return <>{props.seconds === null ? <span class="muted">–</span> : duration(1000 * props.seconds)}</>;
}
