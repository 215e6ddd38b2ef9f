// What was said, where the key keeps it. It is not fetched until somebody asks, for the audit log is told of each look.
import { useMemo, useState } from "preact/hooks";
import { get, remove, type ApiError } from "../../lib/api";
import { asError } from "../../lib/load";
import { readReplay } from "../../lib/replay";
import { isMember, may } from "../../lib/permission";
import { go, href, path, query } from "../../lib/route";
import type { ContentView as Content, RequestDetail } from "../../lib/types";
import { Button, Choice, Confirm, Panel, Problem } from "../../ui/parts";
import { ConversationView } from "./conversation";
import { Frames } from "./frames";
import { Replay } from "./replay";

type View = "conversation" | "frames" | "replay";
const VIEWS: readonly (readonly [View, string])[] = [
  ["conversation", "Conversation"],
  ["frames", "Frames"],
  ["replay", "Replay"],
];

export function Said(props: { row: RequestDetail; content: Content | null; onContent: (content: Content) => void; onDeleted: () => void }) {
  const { row, content } = props;
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const [isDeleting, setIsDeleting] = useState(false);
  const address = `/api/requests/${encodeURIComponent(row.request_id)}/content`;
  const show = async () => {
    setIsBusy(true);
    setError(null);
    try {
      props.onContent(await get<Content>(address));
    } catch (reason) {
      setError(asError(reason));
    }
    setIsBusy(false);
  };
  if (!row.has_content) {
    return (
      <Panel title="Content">
        <p class="muted">
          Not stored.{" "}
          {!isMember() && (
            <>
              To store content, switch it on for the key under <a href={href("/keys", row.key_id === null ? {} : { show: row.key_id })}>Keys</a>.
            </>
          )}
        </p>
      </Panel>
    );
  }
  if (!may("content.read")) {
    return (
      <Panel title="Content">
        <p class="muted">Stored. Your role may not read it.</p>
      </Panel>
    );
  }
  return (
    <Panel
      title="Content"
      actions={
        <>
          {content && <ViewChoice isStream={row.stream} />}
          {may("content.erase") && (
            <Button small tone="quiet" onClick={() => setIsDeleting(true)}>
              Delete
            </Button>
          )}
        </>
      }
    >
      <Problem error={error} />
      {content ? (
        <Shown row={row} content={content} />
      ) : (
        <div class="row">
          <Button onClick={show} disabled={isBusy}>
            Show content
          </Button>
          <span class="muted small">Reading it is recorded in the audit log.</span>
        </div>
      )}
      {isDeleting && (
        <Confirm title="Delete the content?" action="Delete" onConfirm={() => remove(address).then(props.onDeleted)} onClose={() => setIsDeleting(false)}>
          <p>This deletes the prompt, the answer and the frames of this request. Its log row, usage and cost stay. This cannot be undone.</p>
        </Confirm>
      )}
    </Panel>
  );
}

function chosenView(isStream: boolean): View {
  const found = VIEWS.find(([name]) => name === query.value.get("said"))?.[0] ?? "conversation";
  return found === "replay" && !isStream ? "conversation" : found;
}

// An answer that came in one piece has no pace.
function ViewChoice(props: { isStream: boolean }) {
  return (
    <Choice
      label="View"
      value={chosenView(props.isStream)}
      options={props.isStream ? VIEWS : VIEWS.slice(0, 2)}
      onChange={(said) => go(path.value, { ...Object.fromEntries(query.value), said }, { replace: true })}
    />
  );
}

function Shown(props: { row: RequestDetail; content: Content }) {
  const { row, content } = props;
  const moments = useMemo(() => readReplay(content.caller_frames, row.stream), [content, row.stream]);
  const view = chosenView(row.stream);
  return (
    <div class="stack">
      {content.is_cut && <p class="warn small">The content exceeded the storage limit: its end is missing.</p>}
      {view === "conversation" && <ConversationView content={content} answer={moments.at(-1)?.answer ?? null} />}
      {view === "frames" && <Frames content={content} />}
      {view === "replay" && <Replay moments={moments} />}
    </div>
  );
}
