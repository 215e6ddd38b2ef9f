// One answer: the text as it comes, reasoning folded, tool calls as their arguments grow, and at the end what it took.
// An answer that stopped without its end is said to be cut, whatever it says.
import { useEffect, useState } from "preact/hooks";
import { get } from "../../lib/api";
import type { Call, Choice } from "../../lib/chat";
import { count, dollars, duration, exactDollars, NONE, shortId, words } from "../../lib/format";
import { rate, tokensPerSecond } from "../../lib/pace";
import { href } from "../../lib/route";
import type { FoundRequest, RequestDetail } from "../../lib/types";
import { Growing } from "../../ui/growing";
import { Badge, Button, CopyButton, type Tone } from "../../ui/parts";
import type { Run } from "./run";

export function AnswerView(props: { run: Run; onContinue: (choice: Choice) => void }) {
  const { run } = props;
  const row = useSettled(run.phase === "over" ? run.requestId : null);
  if (run.phase === "idle") return <p class="muted small">The answer streams here.</p>;
  const { choices } = run.answer;
  const first = choices[0];
  const isContinuable = run.phase === "over" && first && (run.ending === "whole" || run.ending === "stopped" || run.ending === "cut") && (first.text || first.refusal || first.calls.length > 0);
  return (
    <div class="answer" aria-busy={run.phase !== "over"}>
      {choices.map((choice) => (
        <ChoiceView key={choice.index} choice={choice} isAlone={choices.length === 1} isOver={run.phase === "over"} />
      ))}
      {run.phase !== "over" && !run.answer.pieces && <p class="muted pulse">{run.phase === "sending" ? "Sending …" : "Waiting for the first token …"}</p>}
      <Fate run={run} />
      {run.phase === "over" && first && (
        <div class="row">
          {isContinuable && (
            <Button small onClick={() => props.onContinue(first)}>
              Continue
            </Button>
          )}
          {first.text && <CopyButton text={() => first.text} />}
        </div>
      )}
      {/* Below the buttons: it changes when the request is settled, and a button that moves while it is pressed is not pressed. */}
      {run.phase !== "sending" && <Figures run={run} row={row} />}
      {row !== null && row.dropped.length > 0 && (
        <p class="muted small">
          Dropped from the request (not supported by the target, or left out by its settings): <code class="break">{row.dropped.join(", ")}</code>
        </p>
      )}
    </div>
  );
}

function ChoiceView(props: { choice: Choice; isAlone: boolean; isOver: boolean }) {
  const { choice } = props;
  return (
    <>
      {!props.isAlone && <h3>Choice {choice.index + 1}</h3>}
      {choice.reasoning && (
        <details class="fold reasoning">
          <summary>
            Reasoning <span class="muted">{count(choice.reasoning.length)} characters</span>
            <span class="muted last-line">{choice.text || props.isOver ? "" : lastLine(choice.reasoning)}</span>
          </summary>
          <Growing class="muted" text={choice.reasoning} />
        </details>
      )}
      {choice.text && <Growing text={choice.text} />}
      {choice.refusal && (
        <div>
          <Badge tone="warn">refusal</Badge>
          <Growing text={choice.refusal} />
        </div>
      )}
      {choice.calls.map((call, place) => (
        <CallView key={place} call={call} isOver={props.isOver} />
      ))}
      {choice.others?.map((other, place) => (
        <CallView key={place} call={other} isOver word="item" />
      ))}
    </>
  );
}

function lastLine(text: string): string {
  return text.slice(-400).trimEnd().split("\n").at(-1)?.slice(-160) ?? "";
}

function CallView(props: { call: Call; isOver: boolean; word?: string }) {
  const { call, isOver, word = "call" } = props;
  return (
    <div class="call">
      <div class="row">
        <Badge tone="accent">{word}</Badge>
        <span class="mono break">{call.name || "…"}</span>
        {call.id && <span class="muted small mono break">{call.id}</span>}
      </div>
      {isOver ? <pre dir="auto">{pretty(call.arguments)}</pre> : <Growing class="mono" text={call.arguments} />}
    </div>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // it was cut, or the model cannot write JSON: as it is
  }
}

const FATES: Record<string, [Tone, string]> = {
  whole: ["good", "Done"],
  stopped: ["warn", "Stopped"],
  cut: ["bad", "Cut off"],
  failed: ["bad", "Failed"],
  refused: ["bad", "Refused"],
};

// How it stands, in words; errors in full.
function Fate(props: { run: Run }) {
  const { run } = props;
  const fault = run.answer.fault ?? run.fault;
  const [tone, name] = FATES[run.ending ?? ""] ?? ["accent", run.phase === "sending" ? "Sending" : "Streaming"];
  const finishes = run.answer.choices.map((choice) => choice.finish).filter((finish) => finish !== null);
  return (
    <>
      {fault && (
        <div class="problem" role="alert">
          <div>
            <strong>{[...new Set([run.status && run.status !== 200 ? run.status : null, fault.type, fault.code])].filter(Boolean).join(" · ") || "Error"}</strong>
            <div dir="auto">{fault.message}</div>
          </div>
        </div>
      )}
      {run.ending === "cut" && !fault && (
        <div class="problem" role="alert">
          The stream ended before it was complete. The answer above is incomplete.
        </div>
      )}
      <div class="row" role="status">
        <Badge tone={tone}>{name}</Badge>
        {finishes.length > 0 && <span class="muted small">finish: {finishes.map(words).join(", ")}</span>}
        {run.answer.unread > 0 && <span class="warn small">{count(run.answer.unread)} frames could not be read</span>}
      </div>
    </>
  );
}

function Figures(props: { run: Run; row: RequestDetail | null }) {
  const { run, row } = props;
  const { use } = run.answer;
  const completion = use?.completion ?? row?.completion_tokens ?? null;
  const perSecond = tokensPerSecond(completion, run.firstMs, run.lastMs);
  const cache = [use?.cached ? `${count(use.cached)} read from a cache` : "", use?.written ? `${count(use.written)} written to a cache` : ""].filter(Boolean).join(", ");
  const more = use?.reasoning ? `${count(use.reasoning)} reasoning` : "";
  return (
    <dl class="figures">
      <Figure name="First token" value={duration(run.firstMs)} />
      <Figure name="Tokens/s" value={rate(perSecond)} />
      <Figure name="Total" value={duration(run.endMs)} />
      <Figure name="Tokens in" value={count(use?.prompt ?? row?.prompt_tokens)} {...(cache ? { title: cache } : {})} />
      <Figure name="Tokens out" value={count(completion)} {...(more ? { title: more } : {})} />
      <Figure name="Price" value={row ? dollars(row.price_usd) : NONE} title={row?.price_usd ? exactDollars(row.price_usd) : "Known when the request is settled, if its model has a price"} />
      {run.requestId && (
        <div>
          <dt>Request</dt>
          <dd>
            <a class="mono" href={href(`/requests/${encodeURIComponent(run.requestId)}`)} title={run.requestId}>
              {shortId(run.requestId)}
            </a>
          </dd>
        </div>
      )}
    </dl>
  );
}

function Figure(props: { name: string; value: string; title?: string }) {
  return (
    <div title={props.title}>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}

const WAITS_MS = [150, 400, 1000, 2000, 4000];

// The row of a request, once the log has it.
function useSettled(id: string | null): RequestDetail | null {
  const [row, setRow] = useState<RequestDetail | null>(null);
  useEffect(() => {
    setRow(null);
    if (!id) return;
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = (tries: number) => {
      const wait = WAITS_MS[tries];
      if (wait === undefined) return;
      timer = setTimeout(() => {
        get<FoundRequest>(`/api/requests/${encodeURIComponent(id)}`, {}, control.signal).then(
          (found) => (found.request ? setRow(found.request) : look(tries + 1)),
          () => control.signal.aborted || look(tries + 1),
        );
      }, wait);
    };
    look(0);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [id]);
  return row;
}
