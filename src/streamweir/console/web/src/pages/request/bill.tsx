// What was used and what it cost, with the arithmetic: the lines are the server's, which add up to the cost exactly.
import { explainSource, nameOfBucket } from "../../lib/explain";
import { count, exactDollars } from "../../lib/format";
import type { BillLineView, RequestDetail } from "../../lib/types";
import { Badge, Panel } from "../../ui/parts";

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

export function Cost(props: { row: RequestDetail }) {
  const { row } = props;
  return (
    <Panel title="Cost" flush actions={row.price_version && <span class="muted small">Prices {row.price_version}</span>}>
      {row.bill && row.cost_usd !== null && <Bill lines={row.bill} cost={row.cost_usd} />}
      <div class="muted small panel-note">
        {row.cost_usd === null && (
          <p>{row.usage === null ? "No cost: no provider was called." : "No cost: the model has no price."}</p>
        )}
        {row.cost_usd !== null && !row.bill && (
          <p>
            Booked: <span class="num">{exactDollars(row.cost_usd)}</span>. The rates it was settled by were not kept.
          </p>
        )}
        {Number(row.held_usd) > 0 && (
          <p>
            <span class="num">{exactDollars(row.held_usd)}</span> was reserved while it ran. The unused part was released.
          </p>
        )}
      </div>
    </Panel>
  );
}

function Bill(props: { lines: readonly BillLineView[]; cost: string }) {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Cost calculation">
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
              <td class="number">{exactDollars(line.amount_usd)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={3}>
              Total
            </th>
            <td class="number">
              <strong>{exactDollars(props.cost)}</strong>
            </td>
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
