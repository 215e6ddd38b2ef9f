// The same request once more, by hand: the playground is filled in with what is known of it. Nothing is sent, and the key
// is the playground's own: that of a caller is used only by whoever chooses it.
import { useState } from "preact/hooks";
import { get, type ApiError } from "../../lib/api";
import { openInPlayground } from "../../lib/handover";
import { asError } from "../../lib/load";
import { draftOfBody, draftOfParameters } from "../../lib/repeat";
import type { ContentView as Content, RequestDetail } from "../../lib/types";
import { Button, Problem } from "../../ui/parts";

export function Repeat(props: { row: RequestDetail; content: Content | null }) {
  const { row } = props;
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const repeat = async () => {
    setIsBusy(true);
    try {
      const content = props.content ?? (row.has_content ? await get<Content>(`/api/requests/${encodeURIComponent(row.request_id)}/content`) : null);
      const draft = { ...draftOfParameters(row.parameters, row.stream), ...(content ? draftOfBody(content.prompt) : {}) };
      openInPlayground({ draft, ...(row.model === null ? {} : { model: row.model }), ...(row.dialect === null ? {} : { dialect: row.dialect }) });
    } catch (reason) {
      setError(asError(reason));
      setIsBusy(false);
    }
  };
  const about = row.has_content ? "With its prompt. Reading it is recorded in the audit log." : "With its parameters: its prompt is not stored.";
  return (
    <>
      <Button small disabled={isBusy} title={about} onClick={repeat}>
        Repeat in the playground
      </Button>
      <Problem error={error} />
    </>
  );
}
