// What was asked besides the prompt: the parameters that were sent, and never a text.
import { parameterRows } from "../../lib/parameters";
import type { RequestDetail } from "../../lib/types";
import { Facts, Panel } from "../../ui/parts";

export function Parameters(props: { row: RequestDetail }) {
  const { parameters, stream } = props.row;
  if (parameters === null) return null;
  return (
    <Panel title="Parameters" class="one-facts">
      <Facts rows={[["Streamed", stream ? "yes" : "no"], ...parameterRows(parameters).map(([name, text]): [string, preact.JSX.Element] => [name, <bdi>{text}</bdi>])]} />
    </Panel>
  );
}
