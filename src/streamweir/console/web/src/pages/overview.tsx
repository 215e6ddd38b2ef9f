// What was asked, what it cost and how it went over the last hour, day, week or month, by one call. Every figure leads to
// the requests behind it. Asked again every quarter of a minute while somebody looks.
import { useEffect, useRef } from "preact/hooks";
import { get } from "../lib/api";
import { useLoad, useRefresh } from "../lib/load";
import { GROUPINGS, isGrouping, isPeriod, PERIODS, snapped, stepsOf, type Range } from "../lib/overview";
import { isMember, scoped } from "../lib/permission";
import { query } from "../lib/route";
import type { Grouping, Overview as View, Period } from "../lib/types";
import { Button, Choice, Page, Problem, Waiting } from "../ui/parts";
import { adjust, NARROWING, type Narrowing } from "./overview/address";
import { Attributed } from "./overview/attributed";
import { Charts } from "./overview/charts";
import { OwnCredit } from "./overview/credit";
import { First } from "./overview/first";
import { Groups } from "./overview/groups";
import { Stats } from "./overview/stats";
import { TopKeys } from "./overview/top";

const REFRESH_MS = 15_000;

// What somebody has chosen stays while the console is open, wherever else one goes meanwhile.
let kept: { period: Period | null; by: Grouping } = { period: null, by: "model" };

export function Overview() {
  const asked = query.value;
  const first = useRef<Period | null>(null); // the server's choice: the period that holds the requests
  const period = isPeriod(asked.get("period")) ? (asked.get("period") as Period) : kept.period;
  const by: Grouping = isGrouping(asked.get("by")) ? (asked.get("by") as Grouping) : kept.by;
  const within: Narrowing = Object.fromEntries(NARROWING.flatMap((name) => (asked.get(name) ? [[name, asked.get(name)]] : [])));
  const { data, error, reload } = useLoad(
    (abort) => get<View>(scoped("/overview"), { period: period ?? first.current, by, ...within }, abort),
    [period, by, ...NARROWING.map((name) => within[name])],
  );
  useRefresh(reload, REFRESH_MS);
  useEffect(() => {
    kept = { period, by };
  }, [period, by]);
  const shown = period ?? data?.period ?? "day";
  if (data && (data.has_requests || data.refused?.total)) first.current ??= data.period;
  const hasAny = data !== null && (data.has_requests || Boolean(data.refused?.total) || Object.keys(within).length > 0);
  const actions = (
    <>
      <Choice label="Period" value={shown} options={PERIODS} onChange={(chosen) => adjust({ period: chosen, from: null, to: null })} />
      <Choice label="Grouped by" value={by} options={GROUPINGS} onChange={(chosen) => adjust({ by: chosen })} />
    </>
  );
  return (
    <Page title="Overview" actions={hasAny ? actions : undefined}>
      <Problem error={error} onRetry={reload} />
      {isMember() && <OwnCredit />}
      {data === null ? !error && <Waiting /> : hasAny ? <Shown view={data} within={within} zoom={zoomOf(asked)} /> : <First />}
    </Page>
  );
}

function zoomOf(asked: URLSearchParams): Range | null {
  const [since, until] = [Number(asked.get("from")), Number(asked.get("to"))];
  return since > 0 && until > since ? { since, until } : null;
}

function Shown(props: { view: View; within: Narrowing; zoom: Range | null }) {
  const { view, within } = props;
  const steps = stepsOf(view);
  const zoom = props.zoom && snapped(props.zoom, steps, view.step_ms);
  return (
    <>
      <Chips within={within} view={view} />
      <Stats view={view} within={within} />
      <Charts view={view} steps={steps} zoom={zoom} within={within} />
      <Groups view={view} within={within} />
      <div class="columns even tops">
        {view.by !== "key" && !within.key && view.top_keys.length > 0 && <TopKeys view={view} within={within} />}
        {!within.model && !within.provider && !isMember() && <Attributed view={view} within={within} />}
      </div>
    </>
  );
}

function Chips(props: { within: Narrowing; view: View }) {
  const names = NARROWING.filter((name) => props.within[name]);
  if (!names.length) return null;
  return (
    <div class="row" role="group" aria-label="Filters">
      <span class="muted">Only</span>
      {names.map((name) => (
        <Button key={name} small aria-label={`${name} ${props.within[name]}: remove this filter`} onClick={() => adjust({ [name]: null })}>
          <span class="muted">{name}</span>
          <span class="clipped">{nameOf(name, props.within[name] ?? "", props.view)}</span>
          <span aria-hidden="true">✕</span>
        </Button>
      ))}
    </div>
  );
}

// A key is known by its name where the view tells it.
function nameOf(kind: string, value: string, view: View): string {
  const known = kind === "key" ? [...view.top_keys, ...view.groups] : [];
  return known.find((group) => group.group === value)?.name ?? value;
}
