// How a target or a key does over the processes of all nodes, in a word that needs no colour, and in each of them on demand.
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { clock, count, duration, words } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { may } from "../../lib/permission";
import type { NodeView, Page as Rows, TargetState, TargetView } from "../../lib/types";
import { Ago, Badge, Dialog, Problem, Waiting, type Tone } from "../../ui/parts";
import { Table } from "../../ui/table";

interface Health {
  state: TargetState;
  away_for_s: number;
  processes: number;
  away: number;
  probation: number;
  is_limited?: boolean;
}

interface Of {
  provider: string;
  model?: string;
  credential?: string; // undefined: all of them
}

const WORDS: Record<TargetState, readonly [string, Tone, string]> = {
  well: ["healthy", "good", "Gets requests as usual"],
  probation: ["probing", "warn", "Failed recently: the next request decides"],
  away: ["ejected", "bad", "Failed too often and gets no requests for a while"],
};

export function State(props: Health & { of?: Of }) {
  const { state, processes, of } = props;
  const [isOpen, setIsOpen] = useState(false);
  const badge = <Word {...props} />;
  if (!of || !processes || !may("nodes.read")) return badge;
  const name = [of.provider, of.model].filter(Boolean).join("/") + (of.credential ? `, key ${of.credential}` : "");
  return (
    <>
      <button type="button" class="bare" aria-label={`${wordOf(props)}: ${name} in each process`} onClick={() => setIsOpen(true)}>
        {badge}
      </button>
      {isOpen && <Details key={state} name={name} of={of} onClose={() => setIsOpen(false)} />}
    </>
  );
}

function wordOf(health: Health): string {
  const { state, processes, away, probation, away_for_s } = health;
  const some = state === "away" ? away : state === "probation" ? probation : processes;
  const word = health.is_limited ? "paused" : (WORDS[state]?.[0] ?? state);
  const wait = state === "away" && away_for_s > 0 ? ` for ${duration(1000 * away_for_s)}` : "";
  return `${word}${some < processes ? ` in ${count(some)} of ${count(processes)}` : ""}${wait}`;
}

function Word(props: Health) {
  const { state, away_for_s } = props;
  const [, tone, about] = WORDS[state] ?? ["", "plain", ""];
  const isPart = state === "away" && props.away < props.processes;
  const until = state === "away" && away_for_s > 0 ? `, until ${clock(Date.now() + 1000 * away_for_s)}` : "";
  return (
    <Badge tone={props.is_limited || isPart ? "warn" : tone} title={(props.is_limited ? "The provider asked for a pause (rate limit)" : about) + until}>
      {wordOf(props)}
    </Badge>
  );
}

type Row = Health & { process: NodeView; ttft_s: number | null; running: number | null; ejections: number; error: string | null; error_at_ms: number | null; credential: string };
const HEALTHY = { state: "well", away_for_s: 0, processes: 1, away: 0, probation: 0, ttft_s: null, running: 0, ejections: 0, error: null, error_at_ms: null } as const;

// What each process knows: of a target with each of its keys, or of one key.
function Details(props: { name: string; of: Of; onClose: () => void }) {
  const { provider, model, credential } = props.of;
  const { data, error, reload } = useLoad((abort) => get<Rows<NodeView>>("/api/nodes", { provider, model }, abort), [provider, model]);
  const rows = data?.data.flatMap((process): Row[] => {
    const known = model === undefined ? process.credentials.map((each) => ({ ...each, credential: each.name, ttft_s: null, running: null })) : process.targets;
    const found = known.filter((each) => credential === undefined || each.credential === credential);
    return (found.length || !process.reported_ms ? found : [{ ...HEALTHY, credential: "" }]).map((each) => ({ ...each, process }));
  });
  const silent = data?.data.filter((process) => !process.reported_ms) ?? [];
  const hasKeys = credential === undefined && Boolean(rows?.some((row) => row.credential));
  return (
    <Dialog title={props.name} wide onClose={props.onClose}>
      <Problem error={error} onRetry={reload} />
      {!rows ? (
        !error && <Waiting />
      ) : (
        <Table<Row>
          label="Health in each process"
          rows={rows}
          keyOf={(row) => `${row.process.instance} ${row.credential}`}
          columns={[
            { name: "Process", show: ({ process }) => <Process process={process} /> },
            hasKeys && { name: "Key", show: (row: Row) => row.credential },
            { name: "State", class: "wide", show: (row) => <Word {...row} /> },
            model !== undefined && { name: "First token", isNumber: true, show: (row: Row) => <Latency seconds={row.ttft_s} /> },
            model !== undefined && { name: "Running", isNumber: true, show: (row: Row) => count(row.running ?? 0) },
            { name: "Ejections", isNumber: true, show: (row) => count(row.ejections) },
            { name: "Last error", class: "wide", show: (row) => <LastError {...row} /> },
          ]}
        />
      )}
      {silent.length > 0 && <p class="muted within">{silent.map((each) => each.node).join(", ")}: no report, because it has just started or is of an older version.</p>}
    </Dialog>
  );
}

// The end of its id tells the workers of a node apart.
export function Process(props: { process: NodeView }) {
  const { node, instance, is_this } = props.process;
  return (
    <span class="named" title={instance}>
      <bdi class="clipped">{node || "this process"}</bdi> <span class="mono muted small nowrap">…{instance.slice(-4)}</span>
      {is_this && <Badge title="The process that has answered">answers</Badge>}
    </span>
  );
}

export function LastError(props: { error: string | null; error_at_ms: number | null }) {
  if (props.error === null) return <span class="muted">–</span>;
  return (
    <>
      {words(props.error)} <span class="muted small nowrap"><Ago at={props.error_at_ms} /></span>
    </>
  );
}

// A provider has an API of its own, which is not named, and some have others.
const APIS: Partial<Record<TargetView["wire"], string>> = { converse: "Converse", messages: "Messages", responses: "Responses" };

export function Wire(props: { wire: TargetView["wire"] }) {
  const api = APIS[props.wire];
  return api ? <Badge title={`Asked through the provider's ${api} API`}>{api}</Badge> : null;
}

export function Latency(props: { seconds: number | null }) {
  return <>{props.seconds === null ? <span class="muted">–</span> : duration(1000 * props.seconds)}</>;
}
