// What a member may still spend: the workspace's credit, and the budgets of further keys.
import { get } from "../../lib/api";
import { dollars } from "../../lib/format";
import { useLoad, useRefresh } from "../../lib/load";
import type { OwnCreditView } from "../../lib/types";
import { Facts, Money, Panel, Problem } from "../../ui/parts";

const REFRESH_MS = 15_000;

export function OwnCredit() {
  const { data, error, reload } = useLoad((abort) => get<OwnCreditView>("/api/me/credit", {}, abort), []);
  useRefresh(reload, REFRESH_MS);
  return (
    <Panel title="What you may spend" class="one-facts">
      <Problem error={error} onRetry={reload} />
      {data && (
        <Facts
          rows={[
            ["Credit left, of your workspace", data.left_usd === null ? "no limit" : <Money usd={data.left_usd} />],
            ["Left for budgets of further keys", budgetOf(data)],
            ["Keys", `${data.keys} of ${data.allowed.max_keys}`],
          ]}
        />
      )}
    </Panel>
  );
}

export function budgetOf({ budget_left_usd, allowed }: OwnCreditView): string {
  if (budget_left_usd === null) return "no limit";
  return `${dollars(budget_left_usd)} of ${dollars(allowed.budget_usd)} ${allowed.budget_period === "total" ? "in total" : `per ${allowed.budget_period}`}`;
}
