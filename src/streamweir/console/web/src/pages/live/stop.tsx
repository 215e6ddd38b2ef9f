// A request is stopped only after its person has seen which one, and said so once more.
import { post } from "../../lib/api";
import { count } from "../../lib/format";
import { asError } from "../../lib/load";
import type { LiveView } from "../../lib/types";
import { Confirm, Facts } from "../../ui/parts";

export function StopDialog(props: { row: LiveView; onStopped: () => void; onClose: () => void }) {
  const { row } = props;
  const stop = async () => {
    try {
      await post(`/api/live/${encodeURIComponent(row.request_id)}/cancel`);
    } catch (reason) {
      const problem = asError(reason);
      if (problem.status !== 404) throw problem; // else it ended by itself in the meantime
    }
    props.onStopped();
  };
  return (
    <Confirm title="Stop this request?" action="Stop the request" onConfirm={stop} onClose={props.onClose}>
      <div class="stack">
        <Facts
          rows={[
            ["Model", <bdi>{row.model}</bdi>],
            ["Key", <bdi>{row.key_name}</bdi>],
            row.end_user ? ["End user", <bdi>{row.end_user}</bdi>] : null,
            row.node ? ["Node", <bdi>{row.node}</bdi>] : null,
            ["Tokens out so far", count(row.output_tokens)],
          ]}
        />
        <p>Its caller gets an error frame, and is billed for what was sent. This cannot be undone.</p>
      </div>
    </Confirm>
  );
}
