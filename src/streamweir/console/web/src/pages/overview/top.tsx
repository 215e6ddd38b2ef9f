// The keys that most was sold to, whatever the rest of the page is grouped by.
import { count, percent, short } from "../../lib/format";
import { groupLabel, tokensOf } from "../../lib/overview";
import { href } from "../../lib/route";
import type { GroupView, NamedGroup, Overview, UsageView as Usage } from "../../lib/types";
import { Money, Panel } from "../../ui/parts";
import { Table, type Column } from "../../ui/table";
import type { Narrowing } from "./address";
import { Margin } from "./groups";

export function TopKeys(props: { view: Overview; within: Narrowing }) {
  const { view, within } = props;
  const { since_ms, until_ms } = view;
  return (
    <Panel title="Top keys" flush class="usage dense">
      <Table<NamedGroup>
        label="Top keys"
        rows={view.top_keys}
        keyOf={(group) => group.group ?? ""}
        columns={[
          {
            name: "Key",
            class: "clip",
            show: (group) => (
              <a href={href("/requests", { ...within, key: group.group, since_ms, until_ms })} title={groupLabel(group)}>
                <bdi>{groupLabel(group)}</bdi>
              </a>
            ),
          },
          ...usageColumns(view.total),
        ]}
      />
    </Panel>
  );
}

// The figures of a group, where there is no room for all.
export function usageColumns<T extends GroupView>(total: Usage): (Column<T> | false)[] {
  return [
    { name: "Requests", isNumber: true, show: ({ usage }) => count(usage.requests) },
    { name: "Errors", isNumber: true, show: ({ usage }) => (usage.errors ? `${count(usage.errors)} (${percent(usage.errors, usage.requests)})` : "0") },
    { name: "Tokens", isNumber: true, show: ({ usage }) => <span title={`${count(usage.prompt_tokens)} in, ${count(usage.completion_tokens)} out`}>{short(tokensOf(usage))}</span> },
    { name: "Price", isNumber: true, show: ({ usage }) => <Money usd={usage.price_usd} {...(usage.cost_usd === undefined ? {} : { more: `, cost $${usage.cost_usd}` })} /> },
    total.margin_usd !== undefined && { name: "Margin", isNumber: true, show: ({ usage }) => <Margin usage={usage} /> },
  ];
}
