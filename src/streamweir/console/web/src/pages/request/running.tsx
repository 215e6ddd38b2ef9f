// A request that runs: what is known of it so far, and the button that ends it.
import { useState } from "preact/hooks";
import type { ApiError } from "../../lib/api";
import { nameOfApi } from "../../lib/apis";
import { count, duration, plural } from "../../lib/format";
import { useNow } from "../../lib/load";
import { awayText, calmOf, rate, tokensPerSecond } from "../../lib/pace";
import { isMember, may } from "../../lib/permission";
import { href } from "../../lib/route";
import type { LiveView as Live } from "../../lib/types";
import { At, Button, CopyableId, Facts, Money, Page, Panel, Problem } from "../../ui/parts";
import { useWorkspaces } from "../../ui/workspaces";
import { StopDialog } from "../live/stop";

export function Running(props: { live: Live; error: ApiError | null; onStopped: () => void }) {
  const { live } = props;
  const now = useNow(250);
  const { nameOf } = useWorkspaces();
  const [isAsked, setIsAsked] = useState(false);
  const [isStopping, setIsStopping] = useState(false);
  const isEnding = isStopping || live.is_being_stopped;
  const silent_ms = live.last_ms === null ? null : Math.max(0, now - live.last_ms);
  const speed = tokensPerSecond(live.output_tokens, live.first_ms, live.last_ms);
  return (
    <Page
      title={["Running", live.model, live.key_name].join(" · ")}
      head={
        <>
          <span class="running">Running</span> · <bdi>{live.model}</bdi> · <bdi>{live.key_name}</bdi>
        </>
      }
      about={
        <span class="row">
          <CopyableId id={live.request_id} />
          <At at={live.at_ms} />
        </span>
      }
      actions={
        may("live.stop") && (
          <Button tone="bad" disabled={isEnding} onClick={() => setIsAsked(true)}>
            {isEnding ? "Stopping …" : "Stop"}
          </Button>
        )
      }
    >
      <Problem error={props.error} />
      <Panel title="So far" class="one-facts">
        <Facts
          rows={[
            ["Running for", duration(Math.max(0, now - live.at_ms))],
            ["First token", live.first_ms === null ? "not yet" : duration(live.first_ms - live.at_ms)],
            ["Tokens in (estimate)", count(live.prompt_tokens)],
            ["Tokens out (estimate)", count(live.output_tokens)],
            ["Tokens per second", rate(speed)],
            ["Idle for", silent_ms === null ? "–" : <span class={CALM[calmOf(silent_ms)]}>{duration(silent_ms)}</span>],
            ["Price so far", <Money usd={live.price_usd} />],
            live.cost_usd === undefined ? null : ["Cost so far", <Money usd={live.cost_usd} />],
            ["Reserved", <Money usd={live.held_usd} />],
            ["Model", <bdi>{live.model}</bdi>],
            ["Target", live.target === null ? "–" : <bdi>{live.target}</bdi>],
            [
              "Key",
              <a href={href("/requests", { key: live.key_id })}>
                <bdi>{live.key_name}</bdi>
              </a>,
            ],
            isMember() ? null : ["Workspace", nameOf(live.workspace)],
            ["API", nameOfApi(live.dialect)],
            ["Streamed", live.stream ? "yes" : "no"],
            live.readers === null ? null : ["Readers", live.away_since_ms === null ? count(live.readers) : <span class="warn">{awayText(live.away_since_ms, now)}</span>],
            live.readers === null ? null : ["Nobody read it", live.reader_gap_count ? plural(live.reader_gap_count, "time") : "never"],
          ]}
        />
      </Panel>
      <p class="muted small" aria-live="polite">
        {isEnding
          ? "Stopping: its caller gets an error frame, and the usage so far is settled."
          : "This page updates every second. Timeline, cost and content are shown when the request ends."}
      </p>
      {isAsked && (
        <StopDialog
          row={live}
          onStopped={() => {
            setIsStopping(true);
            props.onStopped();
          }}
          onClose={() => setIsAsked(false)}
        />
      )}
    </Page>
  );
}

const CALM = { moving: "", quiet: "warn", stalled: "bad" } as const;
