// Four charts over the same time. Zooming one zooms all, and the range leads to its requests.
import { useMemo } from "preact/hooks";
import { dollars, duration, plural, short, zone } from "../../lib/format";
import { column, groupColumns, refusedColumn, shownGroups, snapped, spanName, spanText, sum, type Range, type Steps } from "../../lib/overview";
import { href } from "../../lib/route";
import type { Overview } from "../../lib/types";
import { Chart, type Line } from "../../ui/chart";
import { Button, Panel } from "../../ui/parts";
import { adjust, type Narrowing } from "./address";

interface Props {
  view: Overview;
  steps: Steps;
  zoom: Range | null;
  within: Narrowing;
}

interface Lines {
  requests: Line[];
  price: Line[];
  tokens: Line[];
  ttft: Line[];
}

export function Charts(props: Props) {
  const { view, steps, zoom } = props;
  const lines = useMemo(() => linesOf(view, steps, zoom), [view, zoom?.since, zoom?.until]);
  const whole = { since: steps.starts[0] ?? view.since_ms, until: (steps.starts.at(-1) ?? view.until_ms) + view.step_ms };
  const zoomTo = (range: Range | null) => {
    const found = range && snapped(range, steps, view.step_ms);
    adjust({ from: found?.since ?? null, to: found?.until ?? null });
  };
  const common = { times: steps.middles, stepMs: view.step_ms, range: zoom ?? whole, onZoom: zoomTo };
  const each = `by ${spanName(view.step_ms)}`;
  return (
    <>
      {zoom && <Zoomed {...props} zoom={zoom} requests={(lines.requests[0]?.whole ?? 0) + (view.refused ? (lines.requests[1]?.whole ?? 0) : 0)} onReset={() => zoomTo(null)} />}
      <div class="charts">
        <Panel title="Requests">
          <Chart {...common} label={`Requests, refused ones and errors ${each}`} lines={lines.requests} format={short} kind="bars" isWhole />
        </Panel>
        <Panel title={`Price by ${view.by}`}>
          <Chart {...common} label={`Price by ${view.by}, ${each}`} lines={lines.price} format={dollars} kind="bars" isStacked />
        </Panel>
        <Panel title="Tokens">
          <Chart {...common} label={`Tokens ${each}`} lines={lines.tokens} format={short} kind="bars" isStacked isWhole />
        </Panel>
        <Panel title="Time to first token">
          <Chart {...common} label={`Time to first token ${each}`} lines={lines.ttft} format={duration} />
        </Panel>
      </div>
    </>
  );
}

function linesOf(view: Overview, steps: Steps, zoom: Range | null): Lines {
  const { starts, points } = steps;
  const summed = (label: string, colour: string, values: number[]): Line => ({ label, colour, values, whole: sum(values, starts, zoom) });
  const shown = shownGroups(view.groups);
  const prices = groupColumns(view.group_series, starts, shown, (usage) => Number(usage.price_usd));
  const asked = column(points, (usage) => usage.requests, 0);
  const refused = refusedColumn(view, starts);
  return {
    requests: [
      // Refused ones are no part of the requests: they stand on top of them.
      ...(view.refused ? [{ ...summed("Refused", "c6", refused), drawn: refused.map((each, place) => each + (asked[place] ?? 0)) }] : []),
      summed("Requests", "c1", asked),
      summed("Errors", "bad", column(points, (usage) => usage.errors, 0)),
    ],
    price: shown.length
      ? shown.map((group, place) => summed(group.label, group.colour, prices[place] ?? []))
      : [summed("Price", "c1", column(points, (usage) => Number(usage.price_usd), 0))],
    tokens: [
      summed("Out", "c2", column(points, (usage) => usage.completion_tokens, 0)),
      summed("In", "c7", column(points, (usage) => usage.prompt_tokens, 0)),
    ],
    // A percentile of a part cannot be had from those of its steps.
    ttft: [
      { label: "p50", colour: "c1", values: column(points, (usage) => usage.ttft_p50_ms, null), whole: zoom ? null : view.total.ttft_p50_ms },
      { label: "p95", colour: "c3", values: column(points, (usage) => usage.ttft_p95_ms, null), whole: zoom ? null : view.total.ttft_p95_ms },
    ],
  };
}

function Zoomed(props: Props & { zoom: Range; requests: number; onReset: () => void }) {
  const { since, until } = props.zoom;
  return (
    <div class="row zoomed" role="status">
      <span>
        {spanText(since, until, Date.now())} {zone(since)}
      </span>
      <a href={href("/requests", { ...props.within, since_ms: since, until_ms: until })}>
        Show the {plural(props.requests, "request")} of these {spanName(until - since)}
      </a>
      <Button small onClick={props.onReset}>
        Zoom out
      </Button>
    </div>
  );
}
