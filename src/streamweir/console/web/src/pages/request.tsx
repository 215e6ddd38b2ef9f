// One request, by its id or the one in its chunks: what became of it, its way in time, what it is sold for and, where that is
// kept and asked for, what was said. While it runs it is asked about each second.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../lib/api";
import { isInPlayground } from "../lib/apis";
import { capital, count, dollars, duration, exactDollars, outcome, short } from "../lib/format";
import { useLoad } from "../lib/load";
import { rate, tokensPerSecond } from "../lib/pace";
import { may, scoped } from "../lib/permission";
import { href } from "../lib/route";
import type { ContentView as Content, FoundRequest, RequestDetail } from "../lib/types";
import { At, CopyableId, Empty, Page, Problem, toneOf, Waiting } from "../ui/parts";
import { Attempts } from "./request/attempts";
import { Cost, Price, UsageTable } from "./request/bill";
import { FactsPanel, Outcome } from "./request/facts";
import { Neighbours } from "./request/neighbours";
import { Parameters } from "./request/parameters";
import { Refusal } from "./request/refusal";
import { Repeat } from "./request/repeat";
import { Running } from "./request/running";
import { Said } from "./request/said";
import { Snippets } from "./request/snippets";
import { Way } from "./request/way";

const EVERY_MS = 1000;

export function OneRequest(props: { id: string }) {
  const { data, error, isLoading, reload } = useLoad(
    async (abort) => ({ id: props.id, ...(await get<FoundRequest>(scoped(`/requests/${encodeURIComponent(props.id)}`), {}, abort)) }),
    [props.id],
  );
  const isRunning = data?.state === "running";
  const isAsking = useRef(isLoading);
  isAsking.current = isLoading;
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => {
      if (!document.hidden && !isAsking.current) reload();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [isRunning, reload]);

  // What was shown stays until the next one is there.
  if (data === null || (error && data.id !== props.id)) {
    return (
      <Page title={props.id}>
        {error?.status === 404 ? (
          <Empty title="Request not found." action={<a href={href("/requests")}>Show all requests</a>}>
            No request has this id, in its log row or its answer, you may not see it, or it is older than the log.
          </Empty>
        ) : (
          <Problem error={error} onRetry={reload} />
        )}
        {isLoading && <Waiting />}
      </Page>
    );
  }
  return (
    <>
      {data.live && <Running key={data.id} live={data.live} error={error} onStopped={reload} />}
      {data.request && <Over key={data.id} row={data.request} error={error} reload={reload} />}
    </>
  );
}

function Over(props: { row: RequestDetail; error: ReturnType<typeof useLoad>["error"]; reload: () => void }) {
  const { row, reload } = props;
  const [content, setContent] = useState<Content | null>(null);
  const isRefused = row.verdict === "rejected" && row.attempts.length === 0; // else a provider has refused it
  return (
    <Page
      title={titleOf(row)}
      head={<Title row={row} />}
      about={
        <span class="row">
          <CopyableId id={row.request_id} />
          <At at={row.at_ms} />
        </span>
      }
      actions={
        <>
          <Neighbours row={row} />
          {may("playground") && isInPlayground(row.dialect ?? "") && row.model !== null && <Repeat row={row} content={content} />}
        </>
      }
    >
      <Problem error={props.error} onRetry={reload} />
      {isRefused ? (
        <Refusal row={row} />
      ) : (
        <>
          <Figures row={row} />
          <Outcome row={row} />
          <Way row={row} />
          <Attempts row={row} />
          <div class="columns even">
            <UsageTable row={row} />
            <Price row={row} />
          </div>
          <Cost row={row} />
        </>
      )}
      <Parameters row={row} />
      <FactsPanel row={row} />
      {!isRefused && (
        <Said
          row={row}
          content={content}
          onContent={setContent}
          onDeleted={() => {
            setContent(null);
            reload();
          }}
        />
      )}
      <Snippets row={row} content={content} />
    </Page>
  );
}

// What happened, to which model, and by whom it was asked.
function partsOf(row: RequestDetail): [string, string, string] {
  return [capital(outcome(row.verdict)), row.model ?? "no model", row.key_name ?? row.key_id ?? "no key"];
}

function titleOf(row: RequestDetail): string {
  return partsOf(row).join(" · ");
}

function Title(props: { row: RequestDetail }) {
  const [what, model, key] = partsOf(props.row);
  return (
    <>
      <span class={toneOf(props.row.verdict)}>{what}</span> · <bdi>{model}</bdi> · <bdi>{key}</bdi>
    </>
  );
}

function priceNote(row: RequestDetail): string {
  if (row.price_usd === null) return row.usage ? "no price" : "not billed";
  const exact = exactDollars(row.price_usd);
  return exact === dollars(row.price_usd) ? "" : exact;
}

function Figures(props: { row: RequestDetail }) {
  const { row } = props;
  const speed = row.ttft_ms === null ? null : tokensPerSecond(row.completion_tokens, row.ttft_ms, row.duration_ms);
  const figures: [string, string, string][] = [
    ["Duration", duration(row.duration_ms), row.stream ? "streamed" : "not streamed"],
    ["First token", duration(row.ttft_ms), row.ttft_ms === null && row.stream ? "none" : ""],
    ["Tokens in", short(row.prompt_tokens), row.usage?.cache_read ? `${count(row.usage.cache_read)} from the cache` : ""],
    ["Tokens out", short(row.completion_tokens), speed === null ? "" : `${rate(speed)} per second`],
    ["Price", dollars(row.price_usd), priceNote(row)],
    ...(row.margin_usd === undefined ? [] : [["Margin", dollars(row.margin_usd), row.cost_usd == null ? "cost not known" : `cost ${dollars(row.cost_usd)}`] as [string, string, string]]),
  ];
  return (
    <dl class="stats">
      {figures.map(([name, value, more]) => (
        <div class="stat" key={name}>
          <dt class="stat-name">{name}</dt>
          <dd class="stat-value">{value}</dd>
          <dd class="stat-more">{more}</dd>
        </div>
      ))}
    </dl>
  );
}
