// The bytes as they came, frame by frame with their times. What a frame repeats of the one before it is folded: a click
// shows it, and a switch shows all. Follows the newest unless one has scrolled up; only the last
// few hundred are on the page.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FOLDED } from "../../lib/envelope";
import { count, plural } from "../../lib/format";
import { MOST_FRAMES, type RawFrame, type Run } from "./run";

const LONGEST = 4000;

export function RawFrames(props: { run: Run; label: string }) {
  const { frames, frameCount } = props.run;
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isWhole, setIsWhole] = useState(false);
  const follow = () => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(follow, [frameCount, isWhole]);
  const isEmpty = frameCount === 0;
  useEffect(() => {
    const list = box.current?.firstElementChild;
    if (!list) return;
    const observer = new ResizeObserver(follow); // a frame has its true height only when it is seen
    observer.observe(list);
    return () => observer.disconnect();
  }, [isEmpty]);
  const top = useRef(0);
  const look = () => {
    const element = box.current;
    if (!element) return;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 24) follows.current = true;
    else if (element.scrollTop < top.current - 4) follows.current = false; // what is drawn anew moves it down, never up
    top.current = element.scrollTop;
  };
  if (!frameCount) return <p class="muted small">Each frame appears here when it arrives, with the time since the request was sent.</p>;
  return (
    <>
      <div ref={box} class="raw-frames" tabIndex={0} role="region" aria-label={props.label} onScroll={look}>
        <ol>
          {frames.map((frame) => (
            <FrameLine key={frame.number} frame={frame} isWhole={isWhole} />
          ))}
        </ol>
      </div>
      <div class="spread frames-foot">
        <p class="muted small">
          {plural(frameCount, "frame")}
          {frameCount > frames.length && `, the last ${count(MOST_FRAMES)} of them here`}
          {!isWhole && frames.some((frame) => frame.short !== null) && `. ${FOLDED} is as in the frame before`}
        </p>
        <label class="check small">
          <input type="checkbox" checked={isWhole} onChange={(event) => setIsWhole(event.currentTarget.checked)} />
          Whole frames
        </label>
      </div>
    </>
  );
}

function FrameLine(props: { frame: RawFrame; isWhole: boolean }) {
  const { atMs, raw, short } = props.frame;
  const [isOpen, setIsOpen] = useState(false);
  const text = raw.trimEnd();
  const isFolded = short !== null && !props.isWhole && !isOpen;
  return (
    <li>
      <span class="muted">{(atMs / 1000).toFixed(3)}</span>
      {isFolded ? (
        <pre class="folded" title="Show the whole frame" onClick={() => setIsOpen(true)}>
          {short}
        </pre>
      ) : (
        <pre>
          {text.slice(0, LONGEST)}
          {text.length > LONGEST && ` … and ${count(text.length - LONGEST)} characters more`}
        </pre>
      )}
    </li>
  );
}
