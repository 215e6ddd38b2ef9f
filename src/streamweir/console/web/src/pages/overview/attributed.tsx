// What callers say about their requests: the end users, tags, sessions and APIs that most was sold to, by whole days.
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { nameOfApi } from "../../lib/apis";
import { useLoad } from "../../lib/load";
import { href } from "../../lib/route";
import type { GroupView, Overview, UsageSeries } from "../../lib/types";
import { Choice, Panel, Problem } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Narrowing } from "./address";
import { usageColumns } from "./top";

type Kind = "end_user" | "tag" | "session" | "api";
const KINDS: readonly (readonly [Kind, string])[] = [
  ["end_user", "End users"],
  ["tag", "Tags"],
  ["session", "Sessions"],
  ["api", "APIs"],
];
const DAY_MS = 86_400_000;
const MOST = 10;

export function Attributed(props: { view: Overview; within: Narrowing }) {
  const { view, within } = props;
  const [kind, setKind] = useState<Kind>("end_user");
  const since_ms = Math.floor(view.since_ms / DAY_MS) * DAY_MS; // there are sums of days alone
  const { until_ms } = view;
  const { data, error, reload } = useLoad(
    (abort) => get<UsageSeries>("/api/usage", { ...within, by: kind, step: "day", groups: MOST, since_ms, until_ms }, abort),
    [kind, since_ms, until_ms, within.key, within.workspace],
  );
  const filter = kind === "api" ? "dialect" : kind;
  const label = KINDS.find(([name]) => name === kind)?.[1] ?? kind;
  const rows = data?.by === kind ? data.groups.filter((group) => group.group !== "" && group.group !== null) : [];
  const nameOf = (group: GroupView) => (kind === "api" ? nameOfApi(group.group ?? "") : (group.group ?? ""));
  return (
    <Panel title={`Top ${label === "APIs" ? label : label.toLowerCase()}`} flush class="usage dense" actions={<Choice label="Said by callers" value={kind} options={KINDS} onChange={setKind} />}>
      <Problem error={error} onRetry={reload} />
      {rows.length > 0 && (
        <Table<GroupView>
          label={label}
          rows={rows}
          keyOf={(group) => group.group ?? ""}
          columns={[
            { name: label, class: "clip", show: (group) => <a href={href("/requests", { ...within, [filter]: group.group, since_ms, until_ms })} title={nameOf(group)}><bdi>{nameOf(group)}</bdi></a> },
            ...usageColumns<GroupView>(view.total),
          ]}
        />
      )}
      <p class="muted note">{data && !rows.length ? `No ${label.toLowerCase()} were named in this period.` : "As callers name them, in whole days by UTC. The ten with the highest price."}</p>
    </Panel>
  );
}
