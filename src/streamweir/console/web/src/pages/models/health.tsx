// How a target does, in a word that needs no colour.
import { duration } from "../../lib/format";
import type { TargetState } from "../../lib/types";
import { Badge, type Tone } from "../../ui/parts";

interface Health {
  state: TargetState;
  away_for_s: number;
  is_limited?: boolean;
}

const WORDS: Record<TargetState, readonly [string, Tone, string]> = {
  well: ["well", "good", "It is asked as usual"],
  probation: ["on probation", "warn", "It failed lately: the next request will show"],
  away: ["away", "bad", "It failed too often, and is left out for a while"],
};

export function State(props: Health) {
  const [word, tone, about] = WORDS[props.state] ?? [props.state, "plain", ""];
  const isAway = props.state === "away" && props.away_for_s > 0;
  return (
    <Badge tone={props.is_limited ? "warn" : tone} title={props.is_limited ? "It asked for a pause (rate limit)" : about}>
      {props.is_limited ? "paused" : word}
      {isAway && ` for ${duration(1000 * props.away_for_s)}`}
    </Badge>
  );
}

export function Latency(props: { seconds: number | null }) {
  return <>{props.seconds === null ? <span class="muted">–</span> : duration(1000 * props.seconds)}</>;
}
