// The bytes both ways, as text: what the provider sent beside what the caller got, aligned by time. A piece is what came
// in one go, wherever it was cut. So many at a time, for a page of a hundred thousand elements is slow.
import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count } from "../../lib/format";
import { sideBySide } from "../../lib/replay";
import type { ContentView as Content, FrameView as Frame } from "../../lib/types";
import { Button, CopyButton } from "../../ui/parts";

const AT_ONCE = 100;

export function Frames(props: { content: Content }) {
  const { upstream_frames, caller_frames } = props.content;
  const rows = useMemo(() => sideBySide(upstream_frames, caller_frames), [props.content]);
  const [shown, setShown] = useState(AT_ONCE);
  return (
    <div class="tape" tabIndex={0} role="region" aria-label="Frames">
      <Head name="From the provider" frames={upstream_frames} />
      <Head name="To the caller" frames={caller_frames} />
      {rows.slice(0, shown).map((row, index) => (
        <Fragment key={index}>
          <Cell isOut={false} frames={row.upstream} />
          <Cell isOut frames={row.caller} />
        </Fragment>
      ))}
      {rows.length === 0 && <p class="muted">No frames are stored.</p>}
      {rows.length > shown && (
        <div class="tape-more">
          <span class="muted small">
            {count(shown)} of {count(rows.length)} rows
          </span>
          <Button small onClick={() => setShown(shown + 5 * AT_ONCE)}>
            Show more
          </Button>
        </div>
      )}
    </div>
  );
}

function Head(props: { name: string; frames: readonly Frame[] }) {
  return (
    <div class="tape-head">
      <h3>
        {props.name} <span class="muted small">{count(props.frames.length)}</span>
      </h3>
      {props.frames.length > 0 && <CopyButton text={() => props.frames.map((frame) => frame.text).join("")} label="Copy all" />}
    </div>
  );
}

// In one column, where there is no room for two, each says which it is.
function Cell(props: { isOut: boolean; frames: readonly Frame[] }) {
  return (
    <div class={props.frames.length ? "tape-cell" : "tape-cell none"}>
      {props.frames.map((frame, index) => (
        <div class="tape-piece" key={index}>
          <span class="tape-time num">
            <span class="tape-side">{props.isOut ? "out " : "in "}</span>
            {count(frame.after_ms)} ms
          </span>
          <Piece text={frame.text} />
        </div>
      ))}
    </div>
  );
}

const LONGEST = 3000;

function Piece(props: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const text = props.text.replace(/[\r\n]+$/, "");
  const isLong = text.length > LONGEST && !isWhole;
  return (
    <div>
      <pre>{isLong ? text.slice(0, LONGEST) : text}</pre>
      {isLong && (
        <Button small onClick={() => setIsWhole(true)}>
          Show {count(text.length - LONGEST)} more characters
        </Button>
      )}
    </div>
  );
}
