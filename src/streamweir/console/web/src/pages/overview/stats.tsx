// The figures of the period, each with its change against the one before, and each a link to what is behind it.
import type { ComponentChildren } from "preact";
import { count, dollars, duration, exactDollars, percent, short } from "../../lib/format";
import { changeOf, errorRate, marginShare, pointsOf, tokensOf, type Change } from "../../lib/overview";
import { may } from "../../lib/permission";
import { href } from "../../lib/route";
import type { Overview } from "../../lib/types";
import type { Narrowing } from "./address";

export function Stats(props: { view: Overview; within: Narrowing }) {
  const { total, before, refused, since_ms, until_ms, period } = props.view;
  const range = { ...props.within, since_ms, until_ms };
  const all = href("/requests", range);
  const seesCost = total.cost_usd !== undefined;
  const against = (change: Change | null, isWorse = false) => <Against change={change} period={period} isWorse={isWorse} />;
  return (
    <div class={seesCost ? "tiles" : "tiles four"}>
      <Stat name="Requests" to={all} value={short(total.requests)} exact={count(total.requests)}>
        {against(changeOf(total.requests, before.requests))}
      </Stat>
      <Stat name="Error rate" to={href("/requests", { ...range, failed: true })} value={percent(total.errors, total.requests)}>
        {count(total.errors)} failed
        {against(pointsOf(errorRate(total), errorRate(before)), true)}
      </Stat>
      <Stat
        name="Refused"
        to={href("/requests", { ...range, refused: true })}
        value={short(refused?.total)}
        exact="Refused before a provider was called. They cost nothing, and are not among the requests of the other figures."
      >
        {refused ? against(changeOf(refused.total, refused.before), true) : "not known for one provider"}
      </Stat>
      <Stat name="Time to first token" to={href("/requests", { ...range, stream: true })} value={duration(total.ttft_p50_ms)} exact="Half of all streams began faster than p50, 95 % faster than p95.">
        {total.ttft_p95_ms === null ? "no streams" : `p50, p95 ${duration(total.ttft_p95_ms)}`}
        {against(changeOf(total.ttft_p50_ms, before.ttft_p50_ms), true)}
      </Stat>
      <Stat name="Open streams" to={may("live.follow") ? href("/live") : all} value={count(props.view.open_streams)}>
        right now
      </Stat>
      <Stat name="Tokens" to={all} value={short(tokensOf(total))} exact={count(tokensOf(total))}>
        {short(total.prompt_tokens)} in, {short(total.completion_tokens)} out
        {against(changeOf(tokensOf(total), tokensOf(before)))}
      </Stat>
      <Stat name="Cache reads" to={all} value={percent(total.cached_tokens, total.prompt_tokens)} exact={`${count(total.cached_tokens)} of ${count(total.prompt_tokens)} prompt tokens were read from a cache.`}>
        of the prompt tokens
        {against(pointsOf(total.cache_read_share, before.cache_read_share))}
      </Stat>
      <Stat name="Price" to={all} value={dollars(total.price_usd)} exact={exactDollars(total.price_usd)}>
        {total.unpriced > 0 && <span class="warn">{count(total.unpriced)} without a price</span>}
        {against(changeOf(Number(total.price_usd), Number(before.price_usd)))}
      </Stat>
      {seesCost && (
        <>
          <Stat name="Cost" to={all} value={dollars(total.cost_usd)} exact={exactDollars(total.cost_usd)}>
            {Boolean(total.uncosted) && <span class="warn">{count(total.uncosted)} without a cost</span>}
            {against(changeOf(Number(total.cost_usd), Number(before.cost_usd)))}
          </Stat>
          <Stat name="Margin" to={all} value={dollars(total.margin_usd)} exact={exactDollars(total.margin_usd)} isBad={total.margin_usd?.startsWith("-") ?? false}>
            {marginShare(total)} of the price
            {against(changeOf(Number(total.margin_usd), Number(before.margin_usd)))}
          </Stat>
        </>
      )}
    </div>
  );
}

function Stat(props: { name: string; to: string; value: string; exact?: string; isBad?: boolean; children: ComponentChildren }) {
  return (
    <a class="stat" href={props.to} title={props.exact}>
      <span class="stat-name">{props.name}</span>
      <span class={props.isBad ? "stat-value bad" : "stat-value"}>{props.value}</span>
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
