// A request that no provider was asked for: what was refused, and why, in the words that its caller got.
import { explain, WHOSE } from "../../lib/explain";
import { count, duration } from "../../lib/format";
import { href } from "../../lib/route";
import type { RequestDetail } from "../../lib/types";
import { Facts, Panel } from "../../ui/parts";

export function Refusal(props: { row: RequestDetail }) {
  const { row } = props;
  const { refusal } = row;
  const { what, whose, todo } = explain(row.verdict, row.error);
  return (
    <Panel title="Why it was refused" class="one-facts">
      <div class="stack">
        <div class="outcome">
          {refusal && (
            <p class="attempt-message">
              <bdi>{refusal.message}</bdi>
            </p>
          )}
          <p>{what}</p>
          {(whose || todo) && (
            <p class="muted">
              {whose && <strong>{WHOSE[whose]}. </strong>}
              {todo}
            </p>
          )}
          <p class="muted">No provider was called, and nothing is charged.</p>
        </div>
        <Facts
          rows={[
            ["Status", row.status ? String(row.status) : "none"],
            row.error === null ? null : ["Error code", <a href={href("/requests", { error: row.error })} title="Show all requests with this value"><code>{row.error}</code></a>],
            refusal?.param === undefined ? null : ["Member of the request", <code>{refusal.param}</code>],
            ["Model that was asked for", row.model === null ? "none" : <bdi>{row.model}</bdi>],
            ["Refused after", duration(row.duration_ms)],
            row.prompt_tokens === null ? null : ["Tokens in (estimate)", count(row.prompt_tokens)],
          ]}
        />
      </div>
    </Panel>
  );
}
