// What was used, what it is sold for and, for the operator, what it costs, with the arithmetic: the lines are the server's,
// which add up exactly.
import { explainRule, explainSource, nameOfBucket } from "../../lib/explain";
import { alignedDollars, count, decimalsOf } from "../../lib/format";
import type { BillLineView, RequestDetail } from "../../lib/types";
import { Badge, Facts, Money, Panel } from "../../ui/parts";

// What was not used is not worth a line, but for these.
const ALWAYS = new Set(["input_uncached", "output"]);

export function UsageTable(props: { row: RequestDetail }) {
  const { row } = props;
  const buckets = Object.entries(row.usage ?? {}).filter(([name, tokens]) => tokens || ALWAYS.has(name));
  return (
    <Panel title="Usage" flush actions={row.usage_source && <Badge tone={row.usage_source === "provider" ? "good" : "warn"}>{row.usage_source}</Badge>}>
      {buckets.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Tokens by kind">
          <table>
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col" class="number">
                  Tokens
                </th>
              </tr>
            </thead>
            <tbody>
              {buckets.map(([name, tokens]) => (
                <tr key={name}>
                  <td>{nameOfBucket(name)}</td>
                  <td class="number">{count(tokens)}</td>
                </tr>
              ))}
            </tbody>
            <tfoot>
              <tr>
                <th scope="row">In and out</th>
                <td class="number">
                  {count(row.prompt_tokens)} + {count(row.completion_tokens)}
                </td>
              </tr>
            </tfoot>
          </table>
        </div>
      )}
      <p class="muted small panel-note">{explainSource(row.usage_source)}</p>
    </Panel>
  );
}

export function Price(props: { row: RequestDetail }) {
  const { row } = props;
  return (
    <Panel title="Price" flush actions={row.price_version && <span class="muted small">Prices {row.price_version}</span>}>
      {row.bill && row.price_usd !== null && <Bill label="Price calculation" lines={row.bill} total={row.price_usd} />}
      <div class="muted small panel-note">
        {row.price_usd === null && (
          <p>{row.usage === null ? "Nothing is charged: no provider was called." : "Nothing is charged: the model has no price."}</p>
        )}
        {row.price_usd !== null && !row.bill && (
          <p>
            Charged: <Money usd={row.price_usd} />. {!row.charge_rule && "There is no calculation that adds up to it."}
          </p>
        )}
        {row.charge_rule && <p>{explainRule(row.charge_rule)}</p>}
        {Number(row.held_usd) > 0 && (
          <p>
            <Money usd={row.held_usd} /> was reserved while it ran. The unused part was released.
          </p>
        )}
      </div>
    </Panel>
  );
}

// For the operator: what the provider asks for it, and what is left.
export function Cost(props: { row: RequestDetail }) {
  const { row } = props;
  const { cost_usd, margin_usd } = row;
  if (cost_usd === undefined || margin_usd === undefined) return null;
  return (
    <Panel title="Cost and margin" flush actions={<span class="muted small">Not shown to workspaces</span>}>
      {row.cost_bill && cost_usd !== null && <Bill label="Cost calculation" lines={row.cost_bill} total={cost_usd} />}
      <div class="panel-note">
        <Facts
          rows={[
            ["Price", <Money usd={row.price_usd} />],
            ["Cost", <Money usd={cost_usd} />],
            ["Margin", <Money usd={margin_usd} class={margin_usd?.startsWith("-") ? "bad" : ""} />],
          ]}
        />
        {cost_usd === null && row.usage !== null && <p class="muted small">The cost is not known: neither its target nor the price list has one.</p>}
      </div>
    </Panel>
  );
}

function Bill(props: { label: string; lines: readonly BillLineView[]; total: string }) {
  const decimals = decimalsOf([...props.lines.map((line) => line.amount_usd), props.total]);
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.label}>
      <table class="bill">
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" class="number">
              Tokens
            </th>
            <th scope="col" class="number">
              × $ per million
            </th>
            <th scope="col" class="number">
              = Amount
            </th>
          </tr>
        </thead>
        <tbody>
          {props.lines.map((line, index) => (
            <tr key={index}>
              <td>{nameOfBucket(line.what)}</td>
              <td class="number">{line.tokens === null ? (line.count === null ? "" : count(line.count)) : count(line.tokens)}</td>
              <td class="number">{line.usd_per_million}</td>
              <td class="number">{alignedDollars(line.amount_usd, decimals)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={3}>
              Total
            </th>
            <td class="number">
              <strong>{alignedDollars(props.total, decimals)}</strong>
            </td>
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
