// The waterfall: a list of steps, each with its bar in time. What the bars show stands beside them in words and figures;
// the strip of pieces is read with the pointer or the arrow keys.
import { useState } from "preact/hooks";
import { count, duration, plural } from "../../lib/format";
import type { RequestDetail } from "../../lib/types";
import { awaySum, gapText, layOut, told, type Gap, type Part, type Slot, type Step, type Tick } from "../../lib/waterfall";
import { Panel } from "../../ui/parts";

export function Way(props: { row: RequestDetail }) {
  const { row } = props;
  const { steps, slots, gap, ticks } = layOut(row);
  const [slot, setSlot] = useState<number | null>(null);
  const read = slot === null ? undefined : slots[slot];
  return (
    <Panel title="Timeline" actions={<span class="muted small">since arrival</span>}>
      <ol class="way">
        {steps.map((step, index) => (
          <li key={index} class={`way-step is-${step.kind} ${step.error ? "is-failed" : ""}`}>
            <div class="way-name">
              <span>{step.name}</span>
              <span class="visually-hidden"> {told(step)}</span>
              {noteOf(step, row, gap, read)}
              {step.error && (
                <span class="way-note bad" aria-hidden="true">
                  failed: {step.error}
                </span>
              )}
            </div>
            <div class="way-track">
              <Lines ticks={ticks} />
              {step.kind === "answer" && slots.length ? (
                <Pieces step={step} slots={slots} gap={gap} slot={slot} onSlot={setSlot} />
              ) : step.parts.length ? (
                step.parts.map((part) => (
                  <span key={part.from_ms} aria-hidden="true" class="way-bar" style={{ left: share(part.from), width: share(part.width) }} title={partText(part)} />
                ))
              ) : (
                <span aria-hidden="true" class={step.isPoint ? "way-point" : "way-bar"} style={placeOf(step)} title={`${step.name} ${told(step)}`} />
              )}
            </div>
            <div class="way-time num" aria-hidden="true">
              {step.isPoint ? `at ${duration(step.from_ms)}` : duration(step.parts.length ? awaySum(step) : step.to_ms - step.from_ms)}
            </div>
          </li>
        ))}
      </ol>
      <div class="way-step way-axis" aria-hidden="true">
        <div class="way-name" />
        <div class="way-track">
          {ticks.map((tick) => (
            <span key={tick.at_ms} class="way-tick" style={{ left: share(tick.at) }}>
              {tick.name}
            </span>
          ))}
        </div>
        <div class="way-time" />
      </div>
    </Panel>
  );
}

function noteOf(step: Step, row: RequestDetail, gap: Gap | null, slot: Slot | undefined) {
  if (step.kind !== "answer") return step.note && <bdi class="way-note">{step.note}</bdi>;
  const about = slot
    ? `${exact(slot.from_ms)} to ${exact(slot.to_ms)}: ${plural(slot.count, "chunk")}`
    : row.strip === null
      ? ""
      : plural(row.strip.counts.reduce((sum, each) => sum + each, 0), "chunk") + (gap ? `, longest gap ${gapText(gap)}` : "");
  return <span class="way-note num">{about}</span>;
}

function partText(part: Part): string {
  return `${duration(part.from_ms)} to ${part.isOpen ? "the end" : duration(part.to_ms)}`;
}

function exact(ms: number): string {
  return `${count(Math.round(ms))} ms`;
}

function Lines(props: { ticks: readonly Tick[] }) {
  return (
    <>
      {props.ticks.map((tick) => (
        <span key={tick.at_ms} aria-hidden="true" class="way-line" style={{ left: share(tick.at) }} />
      ))}
    </>
  );
}

function Pieces(props: { step: Step; slots: readonly Slot[]; gap: Gap | null; slot: number | null; onSlot: (slot: number | null) => void }) {
  const { slots, gap, slot, onSlot } = props;
  const last = slots.length - 1;
  const point = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    const found = slots.findIndex((each) => at >= each.from && at < each.from + each.width);
    onSlot(found < 0 ? null : found);
  };
  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: (slot ?? -1) + 1, ArrowLeft: (slot ?? 1) - 1, Home: 0, End: last };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    onSlot(Math.min(last, Math.max(0, to)));
  };
  const read = slots[slot ?? 0];
  return (
    <div
      class="way-strip"
      role="slider"
      tabIndex={0}
      aria-label="Chunks of the answer over time"
      aria-valuemin={0}
      aria-valuemax={last}
      aria-valuenow={slot ?? 0}
      aria-valuetext={read ? `${exact(read.from_ms)} to ${exact(read.to_ms)}: ${plural(read.count, "chunk")}` : ""}
      onPointerMove={point}
      onPointerLeave={() => onSlot(null)}
      onKeyDown={move}
      onBlur={() => onSlot(null)}
    >
      <span class="way-bed" style={placeOf(props.step)} />
      {slots.map(
        (each, index) =>
          each.strength > 0 && <span key={index} class="way-slot" style={slotStyle(each)} />,
      )}
      {slot !== null && slots[slot] && <span class="way-read" style={{ left: share(slots[slot].from), width: share(slots[slot].width) }} />}
      {gap && (
        <span class="way-gap" style={{ left: share(gap.from), width: share(gap.width) }}>
          <span class={`way-gap-text ${sideOf(gap)}`}>{gapText(gap)}</span>
        </span>
      )}
    </div>
  );
}

// A little wider than it is, that no seam looks like a gap.
function slotStyle(slot: Slot) {
  const background = `color-mix(in srgb, var(--c1) ${(100 * slot.strength).toFixed(0)}%, var(--sunken))`;
  return { left: share(slot.from), width: `calc(${share(slot.width)} + 0.6px)`, background };
}

function sideOf(gap: Gap): string {
  const middle = gap.from + gap.width / 2;
  return middle > 0.85 ? "left" : middle < 0.15 ? "right" : "";
}

function placeOf(step: Step) {
  return step.isPoint ? { left: share(step.from) } : { left: share(step.from), width: share(step.width) };
}

function share(part: number): string {
  return `${(100 * part).toFixed(3)}%`;
}
