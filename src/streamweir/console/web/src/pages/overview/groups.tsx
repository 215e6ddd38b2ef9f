// Who or what made the figures: a row for each model, key or provider, with its share and the way to its requests.
import type { ComponentChildren } from "preact";
import { count, dollars, duration, exactDollars, percent, plural, short } from "../../lib/format";
import { colourOf, GROUPINGS, groupLabel, marginShare, shownGroups } from "../../lib/overview";
import { href } from "../../lib/route";
import type { Overview, UsageView as Usage, NamedGroup } from "../../lib/types";
import { Button, Empty, Money, Panel } from "../../ui/parts";
import { Table } from "../../ui/table";
import { adjust, type Narrowing } from "./address";

export function Groups(props: { view: Overview; within: Narrowing }) {
  const { view, within } = props;
  const { by, groups, total, since_ms, until_ms } = view;
  const title = GROUPINGS.find(([name]) => name === by)?.[1] ?? by;
  const shown = shownGroups(groups);
  const link = (group: NamedGroup, text: ComponentChildren, more: Record<string, boolean> = {}) =>
    group.group ? <a href={href("/requests", { ...within, [by]: group.group, since_ms, until_ms, ...more })}>{text}</a> : text; // there is no filter for what has no name
  if (!groups.length) {
    return (
      <Panel title={`By ${by}`}>
        <Empty title={`No requests in the last ${view.period}.`} action={view.period !== "month" && <Button onClick={() => adjust({ period: "month", from: null, to: null })}>Show the last month</Button>}>
          New requests appear here within 15 seconds.
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel title={`By ${by}`} flush class="usage">
      <Table
        label={`Usage by ${by}`}
        rows={groups}
        keyOf={(group) => (group.group === null ? 0 : `=${group.group}`)}
        columns={[
          {
            name: title,
            class: "clip",
            show: (group) => (
              <span title={group.group ?? undefined}>
                <span class={`swatch ${colourOf(shown, group.group)}`} aria-hidden="true" />
                {link(group, groupLabel(group))}
              </span>
            ),
          },
          { name: "Requests", isNumber: true, show: (group) => link(group, <Share of={group.usage.requests} all={total.requests} text={count(group.usage.requests)} />) },
          {
            name: "Errors",
            isNumber: true,
            show: (group) => link(group, failures(group.usage), { failed: true }),
          },
          { name: "Tokens in", isNumber: true, show: (group) => link(group, short(group.usage.prompt_tokens)) },
          { name: "Cache reads", isNumber: true, show: ({ usage }) => <CacheReads usage={usage} /> },
          { name: "Tokens out", isNumber: true, show: (group) => link(group, short(group.usage.completion_tokens)) },
          { name: "Price", isNumber: true, show: (group) => link(group, <Share of={Number(group.usage.price_usd)} all={Number(total.price_usd)} text={dollars(group.usage.price_usd)} />) },
          total.cost_usd !== undefined && { name: "Cost", isNumber: true, show: ({ usage }: NamedGroup) => <Money usd={usage.cost_usd} /> },
          total.margin_usd !== undefined && { name: "Margin", isNumber: true, show: ({ usage }: NamedGroup) => <Margin usage={usage} /> },
          { name: "First token p50", isNumber: true, show: ({ usage }) => duration(usage.ttft_p50_ms) },
          { name: "p95", isNumber: true, show: ({ usage }) => duration(usage.ttft_p95_ms) },
          {
            name: "Filter",
            head: <span class="visually-hidden">Filter</span>,
            class: "end",
            show: (group) =>
              group.group &&
              within[by] !== group.group && (
                <button
                  type="button"
                  class="button quiet small"
                  aria-label={`Filter the overview by ${groupLabel(group)}`}
                  onClick={() => adjust({ [by]: group.group })}
                >
                  Filter
                </button>
              ),
          },
        ]}
      />
      <p class="muted note">
        {Boolean(total.uncosted) && "* Of the requests whose cost is known. "}
        Requests refused before a provider was called cost nothing and are not counted:{" "}
        <a href={href("/requests", { ...within, refused: true, since_ms, until_ms })}>refused requests</a>
      </p>
    </Panel>
  );
}

function failures(usage: Usage): string {
  return usage.errors ? `${count(usage.errors)} (${percent(usage.errors, usage.requests)})` : "0";
}

// The part of the prompt that providers had in their caches.
function CacheReads(props: { usage: Usage }) {
  const { cached_tokens, prompt_tokens } = props.usage;
  return <span title={`${count(cached_tokens)} of ${count(prompt_tokens)} prompt tokens were read from a cache.`}>{percent(cached_tokens, prompt_tokens)}</span>;
}

// What is left of the price, of the requests whose cost is known.
export function Margin(props: { usage: Usage }) {
  const { usage } = props;
  const lacks = usage.uncosted ? `, without ${plural(usage.uncosted, "request")} of unknown cost` : "";
  return (
    <span class={usage.margin_usd?.startsWith("-") ? "bad" : ""} title={`${exactDollars(usage.margin_usd)}${lacks}`}>
      {marginShare(usage)}
      {Boolean(usage.uncosted) && "*"}
    </span>
  );
}

// A figure with its share of the whole below it.
function Share(props: { of: number; all: number; text: string }) {
  const share = props.all > 0 ? props.of / props.all : 0;
  return (
    <span class="share" title={percent(props.of, props.all)}>
      {props.text}
      <span class="share-bar" aria-hidden="true">
        <span style={{ width: `${(100 * share).toFixed(1)}%` }} />
      </span>
    </span>
  );
}
