// What is shown before there was any request: what this is, and two ways to send the first one.
import { get } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { may, mayCreateKeys } from "../../lib/permission";
import { href } from "../../lib/route";
import { skeleton, snippet } from "../../lib/snippet";
import type { PlaygroundView } from "../../lib/types";
import { CopyButton, Panel } from "../../ui/parts";

export function First() {
  const { data } = useLoad((abort) => (may("playground") ? get<PlaygroundView>("/api/playground", {}, abort) : Promise.resolve(null)), []);
  const model = data?.default_model ?? data?.models[0] ?? null;
  const hasKey = data === null || data.keys.length > 0;
  const line = snippet("curl", { origin: location.origin, dialect: null, body: skeleton(model, true) });
  return (
    <div class="columns even">
      <Panel title="No requests yet">
        <div class="stack">
          <p>
            This page shows requests, tokens, prices, errors and the time to first token, as soon as there is
            something to show. Every figure links to its requests.
          </p>
          <div class="row">
            {hasKey && may("playground") && (
              <a class="button accent" href={model === null ? href("/playground") : href("/playground", { model, run: 1 })}>
                {model === null ? "Open the playground" : <span class="clipped">Send a request to {model}</span>}
              </a>
            )}
            {mayCreateKeys() && (
              <a class={hasKey ? "button" : "button accent"} href={href("/keys")}>
                Create a key
              </a>
            )}
          </div>
          {!hasKey && <p class="muted">There is no key for chat requests yet. The playground and your programs need one.</p>}
        </div>
      </Panel>
      <Panel title="From your own program" actions={<CopyButton text={line} />}>
        <div class="stack">
          <pre class="sunken">{line}</pre>
          <p class="muted">
            Any OpenAI client works with the base URL <code>{`${location.origin}/v1`}</code>, any Anthropic client with <code>{location.origin}</code>. The key is one of <a href={href("/keys")}>the keys</a> here.
          </p>
        </div>
      </Panel>
    </div>
  );
}
