// The streams in flight, each with its clocks: how long it runs, how fast it comes, how long it has been silent.
// Moments are the gateway's; what counts as now is the gateway's, too.
import { useEffect, useState } from "preact/hooks";
import { useLiveFeed, type Feed } from "../lib/feed";
import { clock, count, dollars, duration, exactDollars, moment, plural, short, shortId, zone } from "../lib/format";
import { useNow } from "../lib/load";
import { awayText, calmOf, rate, tokensPerSecond } from "../lib/pace";
import { may } from "../lib/permission";
import { href } from "../lib/route";
import type { LiveView as Stream, LiveEvent } from "../lib/types";
import { Badge, Button, Empty, Money, Page, Panel, Waiting } from "../ui/parts";
import { Table } from "../ui/table";
import { StopDialog } from "./live/stop";

export function Live() {
  const feed = useLiveFeed();
  const now = useNow(500) + feed.behindMs;
  const [asked, setAsked] = useState<Stream | null>(null);
  const [stopping, setStopping] = useState<ReadonlySet<string>>(new Set());
  const { snapshot } = feed;
  const isStale = feed.state === "lost" || feed.state === "away";
  useEffect(() => {
    const running = new Set(snapshot?.data.map((each) => each.request_id));
    setStopping((before) => ([...before].some((id) => !running.has(id)) ? new Set([...before].filter((id) => running.has(id))) : before));
  }, [snapshot]);
  return (
    <Page title="Live" about={`Requests that are running now.${may("live.stop") ? " Stop ends a stream: its caller gets an error frame and is billed for what was sent." : ""}`} actions={<Connection feed={feed} />}>
      {!snapshot || (isStale && !snapshot.data.length) ? (
        isStale ? <Panel><Empty title="Running requests are unknown">The gateway or its database does not answer.</Empty></Panel> : <Waiting />
      ) : snapshot.data.length === 0 ? (
        <Panel>
          <Empty title="No running requests" action={may("playground") && <a href={href("/playground")}>Send a request from the playground</a>}>
            A request appears here when it is admitted, and disappears when it ends. <a href={href("/requests")}>Requests</a> lists finished requests.
          </Empty>
        </Panel>
      ) : (
        <Streams snapshot={snapshot} isStale={isStale} now={now} stopping={stopping} onStop={setAsked} />
      )}
      {asked && <StopDialog row={asked} onStopped={() => setStopping((before) => new Set(before).add(asked.request_id))} onClose={() => setAsked(null)} />}
    </Page>
  );
}

function Connection(props: { feed: Feed }) {
  const { state, retryMs, retry } = props.feed;
  const now = useNow();
  return (
    <div class="row" role="status">
      {state === "lost" ? (
        <>
          <Badge tone="bad">Connection lost</Badge>
          <span class="muted small">next try in {plural(Math.max(0, Math.ceil(((retryMs ?? now) - now) / 1000)), "second")}</span>
          <Button small onClick={retry}>
            Retry now
          </Button>
        </>
      ) : state === "away" ? (
        <Badge tone="warn" title="The gateway continues to serve; this page is waiting.">
          The database does not answer
        </Badge>
      ) : (
        <Badge tone={state === "open" ? "good" : "plain"}>{state === "open" ? "Updating every second" : "Connecting …"}</Badge>
      )}
    </div>
  );
}

function Streams(props: { snapshot: LiveEvent; isStale: boolean; now: number; stopping: ReadonlySet<string>; onStop: (row: Stream) => void }) {
  const { snapshot, stopping } = props;
  const now = props.isStale ? snapshot.at_ms : props.now;
  const { data, total } = snapshot;
  const nodes = new Set(data.map((row) => row.node));
  const areResumable = data.some((row) => row.readers !== null);
  const isStopping = (row: Stream) => row.is_being_stopped || stopping.has(row.request_id);
  return (
    <>
      <Sums rows={data} total={total} now={now} />
      <Panel flush class="dense" title={`${total > data.length ? `The newest ${count(data.length)} of ${count(total)}` : plural(total, "request")}${props.isStale ? `, as of ${clock(snapshot.at_ms)} ${zone(snapshot.at_ms)}` : ""}`}>
        <Table<Stream>
          label="Running requests"
          rows={data}
          keyOf={(row) => row.request_id}
          columns={[
            { name: "Request", show: (row) => <RequestLink id={row.request_id} /> },
            { name: "Model", class: "clip", show: (row) => <Model row={row} /> },
            { name: "Key", class: "clip narrow", show: (row) => <Caller row={row} /> },
            ...(nodes.size > 1 ? [{ name: "Node", class: "clip narrow", show: (row: Stream) => <bdi>{row.node ?? "–"}</bdi> }] : []),
            { name: "Age", isNumber: true, show: (row) => <span title={moment(row.at_ms)}>{age(now - row.at_ms)}</span> },
            { name: "First token", isNumber: true, show: (row) => duration(row.first_ms === null ? null : row.first_ms - row.at_ms) },
            { name: "Tokens in", head: "In", isNumber: true, show: (row) => short(row.prompt_tokens) },
            { name: "Tokens out", head: "Out", isNumber: true, show: (row) => short(row.output_tokens) },
            { name: "Tokens/s", isNumber: true, show: (row) => rate(tokensPerSecond(row.output_tokens, row.first_ms, row.last_ms)) },
            { name: "Idle", isNumber: true, show: (row) => <Silence row={row} now={now} /> },
            ...(areResumable ? [{ name: "Readers", isNumber: true, show: (row: Stream) => <Readers row={row} now={now} /> }] : []),
            {
              name: "Price so far",
              head: "Price",
              isNumber: true,
              show: (row) => <Money usd={row.price_usd} more={row.cost_usd === undefined ? "" : `, cost ${exactDollars(row.cost_usd)}`} />,
            },
            { name: "State", show: (row) => <State row={row} isStopping={isStopping(row)} now={now} /> },
            may("live.stop") && {
              name: "Stop",
              head: <span class="visually-hidden">Stop</span>,
              class: "end stays",
              show: (row: Stream) => (
                <Button small tone="bad" disabled={isStopping(row)} aria-label={`Stop ${row.request_id}`} onClick={() => props.onStop(row)}>
                  Stop
                </Button>
              ),
            },
          ]}
        />
      </Panel>
    </>
  );
}

function Sums(props: { rows: readonly Stream[]; total: number; now: number }) {
  const { rows } = props;
  const rates = rows.map((row) => tokensPerSecond(row.output_tokens, row.first_ms, row.last_ms)).filter((each) => each !== null);
  const stalled = rows.filter((row) => row.last_ms !== null && calmOf(props.now - row.last_ms) === "stalled").length;
  return (
    <div class="stats">
      <Sum name="Running" value={count(props.total)} />
      <Sum name="Waiting for first token" value={count(rows.filter((row) => row.first_ms === null).length)} />
      <Sum name="Idle for 15 s or more" value={count(stalled)} />
      <Sum name="Tokens per second" value={rates.length ? rate(rates.reduce((sum, each) => sum + each, 0)) : "–"} />
      <Sum name="Price so far" value={dollars(rows.reduce((sum, row) => sum + Number(row.price_usd ?? 0), 0))} />
      {may("costs.read") && <Sum name="Cost so far" value={dollars(rows.reduce((sum, row) => sum + Number(row.cost_usd ?? 0), 0))} />}
    </div>
  );
}

function Sum(props: { name: string; value: string }) {
  return (
    <div class="stat">
      <div class="stat-name">{props.name}</div>
      <div class="stat-value">{props.value}</div>
    </div>
  );
}

function RequestLink(props: { id: string }) {
  return (
    <a class="mono nowrap" href={href(`/requests/${encodeURIComponent(props.id)}`)} title={props.id}>
      {shortId(props.id)}
    </a>
  );
}

function Model(props: { row: Stream }) {
  const { model, target } = props.row;
  return (
    <>
      <span title={model}>{model}</span>
      {target && target !== model && (
        <div class="muted small clipped" title={target}>
          {target}
        </div>
      )}
    </>
  );
}

// The key, and the end user that the request is for, if its caller names one.
function Caller(props: { row: Stream }) {
  const { key_id, key_name, end_user } = props.row;
  return (
    <>
      <a href={href("/keys", { show: key_id })}>{key_name}</a>
      {end_user && (
        <div class="small clipped" title={end_user}>
          <a class="muted" href={href("/requests", { end_user })}>
            <bdi>{end_user}</bdi>
          </a>
        </div>
      )}
    </>
  );
}

function Silence(props: { row: Stream; now: number }) {
  if (props.row.last_ms === null) return <span class="muted">–</span>;
  return <>{(Math.max(0, props.now - props.row.last_ms) / 1000).toFixed(1)} s</>;
}

// How many read a resumable stream, and how often nobody did.
function Readers(props: { row: Stream; now: number }) {
  const { readers, reader_gap_count, away_since_ms } = props.row;
  if (readers === null) return <span class="muted">–</span>;
  return (
    <>
      {away_since_ms === null ? count(readers) : <Badge tone="warn" title="Nobody reads this stream. Its provider's answer is read on for a while.">{awayText(away_since_ms, props.now)}</Badge>}
      {reader_gap_count ? <div class="muted small">{plural(reader_gap_count, "gap")}</div> : null}
    </>
  );
}

function State(props: { row: Stream; isStopping: boolean; now: number }) {
  const { row } = props;
  if (props.isStopping) return <Badge tone="warn">stopping …</Badge>;
  if (row.first_ms === null || row.last_ms === null) return <Badge>{row.target === null ? "routing" : "waiting"}</Badge>;
  const calm = calmOf(props.now - row.last_ms);
  if (calm === "moving") return <Badge tone="good">{row.stream ? "streaming" : "answering"}</Badge>;
  return (
    <Badge tone={calm === "stalled" ? "bad" : "warn"} title={calm === "stalled" ? "No data for more than 15 seconds" : "No data for more than 5 seconds"}>
      {calm}
    </Badge>
  );
}

// `41 s`, `21:41`, `1:21:41`.
function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const two = (value: number) => String(value % 60).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${two(seconds)}` : `${Math.floor(minutes / 60)}:${two(minutes)}:${two(seconds)}`;
}
