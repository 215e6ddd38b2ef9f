// The caller's frames played again: the answer grows as it did, at the original pace or faster, and any moment of it can
// be gone to.
import { useEffect, useRef, useState } from "preact/hooks";
import { duration } from "../../lib/format";
import { answerAt, type Moment } from "../../lib/replay";
import { Button, Choice, Empty } from "../../ui/parts";
import { AnswerTurns } from "./conversation";

const SPEEDS = [
  ["1", "1×"],
  ["2", "2×"],
  ["10", "10×"],
] as const;
type Speed = (typeof SPEEDS)[number][0];

const LONGEST_STEP_MS = 100; // of a tab that was away for a while

export function Replay(props: { moments: readonly Moment[] }) {
  const { moments } = props;
  const end_ms = moments.at(-1)?.at_ms ?? 0;
  const [at_ms, setAt] = useState(0);
  const [speed, setSpeed] = useState<Speed>("1");
  const [isPlaying, setIsPlaying] = useState(false);
  const place = useRef(0);
  place.current = at_ms;

  useEffect(() => {
    if (!isPlaying) return;
    let before = performance.now();
    let handle = requestAnimationFrame(function step(now) {
      const passed = Math.min(LONGEST_STEP_MS, now - before) * Number(speed);
      before = now;
      const next = Math.min(end_ms, place.current + Math.max(0, passed));
      setAt(next);
      if (next >= end_ms) setIsPlaying(false);
      else handle = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(handle);
  }, [isPlaying, speed, end_ms]);

  if (!moments.length) return <Empty title="No frames are stored." />;
  const play = () => {
    if (at_ms >= end_ms) setAt(0);
    setIsPlaying(!isPlaying);
  };
  const answer = answerAt(moments, at_ms);
  return (
    <div class="stack">
      <div class="replay-bar">
        <Button tone="accent" onClick={play}>
          {isPlaying ? "Pause" : at_ms >= end_ms ? "Play again" : "Play"}
        </Button>
        <input
          type="range"
          aria-label="Moment"
          aria-valuetext={duration(at_ms)}
          min={0}
          max={end_ms}
          step={1}
          value={at_ms}
          onInput={(event) => {
            setIsPlaying(false);
            setAt(Number(event.currentTarget.value));
          }}
        />
        <span class="num replay-time">
          {duration(at_ms)} of {duration(end_ms)}
        </span>
        <Choice label="Speed" value={speed} options={SPEEDS} onChange={setSpeed} />
      </div>
      <div class="said">
        <AnswerTurns answer={answer} />
        {answer.choices.length === 0 && answer.fault === null && (
          <p class="muted">{at_ms > 0 ? "Nothing received yet." : "Press Play, or choose a moment."}</p>
        )}
      </div>
    </div>
  );
}
