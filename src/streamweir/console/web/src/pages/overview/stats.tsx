// The figures of the period, each with its change against the one before, and each a link to what is behind it.
import type { ComponentChildren } from "preact";
import { count, dollars, duration, exactDollars, percent, short } from "../../lib/format";
import { changeOf, errorRate, marginShare, pointsOf, tokensOf, type Change } from "../../lib/overview";
import { href } from "../../lib/route";
import type { Overview } from "../../lib/types";
import type { Narrowing } from "./address";

export function Stats(props: { view: Overview; within: Narrowing }) {
  const { total, before, since_ms, until_ms, period } = props.view;
  const range = { ...props.within, since_ms, until_ms };
  const all = href("/requests", range);
  const rate = errorRate(total);
  return (
    <div class="tiles" style={{ "--columns": 3 }}>
      <Stat name="Requests" to={all} value={short(total.requests)} exact={count(total.requests)}>
        <Against change={changeOf(total.requests, before.requests)} period={period} />
      </Stat>
      <Stat name="Tokens" to={all} value={short(tokensOf(total))} exact={count(tokensOf(total))}>
        {short(total.prompt_tokens)} in{total.cached_tokens > 0 && ` (${percent(total.cached_tokens, total.prompt_tokens)} from caches)`}, {short(total.completion_tokens)} out
        <Against change={changeOf(tokensOf(total), tokensOf(before))} period={period} />
      </Stat>
      <Stat name="Price" to={all} value={dollars(total.price_usd)} exact={exactDollars(total.price_usd)}>
        {total.margin_usd !== undefined && (
          <span title={`Cost ${exactDollars(total.cost_usd)}, margin ${exactDollars(total.margin_usd)}`}>
            cost {dollars(total.cost_usd)}, margin {marginShare(total)}
          </span>
        )}
        {total.unpriced > 0 && <span class="warn">{count(total.unpriced)} without a price</span>}
        {Boolean(total.uncosted) && <span class="warn">{count(total.uncosted)} without a cost</span>}
        <Against change={changeOf(Number(total.price_usd), Number(before.price_usd))} period={period} />
      </Stat>
      <Stat name="Error rate" to={href("/requests", { ...range, failed: true })} value={percent(total.errors, total.requests)}>
        {count(total.errors)} failed
        <Against change={pointsOf(rate, errorRate(before))} period={period} isWorse />
      </Stat>
      <Stat name="Time to first token" to={href("/requests", { ...range, stream: true })} value={duration(total.ttft_p50_ms)} exact="Half of all streams began faster than p50, 95 % faster than p95.">
        {total.ttft_p95_ms === null ? "no streams" : `p50, p95 ${duration(total.ttft_p95_ms)}`}
        <Against change={changeOf(total.ttft_p50_ms, before.ttft_p50_ms)} period={period} isWorse />
      </Stat>
      <Stat name="Open streams" to={href("/live")} value={count(props.view.open_streams)}>
        right now
      </Stat>
    </div>
  );
}

function Stat(props: { name: string; to: string; value: string; exact?: string; children: ComponentChildren }) {
  return (
    <a class="stat" href={props.to} title={props.exact}>
      <span class="stat-name">{props.name}</span>
      <span class="stat-value">{props.value}</span>
      <span class="stat-more">{props.children}</span>
    </a>
  );
}

// `isWorse`: where more is worse, and a rise is told by colour as well.
function Against(props: { change: Change | null; period: string; isWorse?: boolean }) {
  const { change } = props;
  if (change === null) return null;
  if (change.isFirst) return <span class="against">none in the previous {props.period}</span>;
  const tone = props.isWorse && change.isUp ? "bad" : props.isWorse && change.isUp === false ? "good" : "";
  return (
    <span class="against">
      <b class={tone}>{change.text}</b> vs previous {props.period}
    </span>
  );
}
