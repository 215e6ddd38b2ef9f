// The models by name: each with its targets in the order they are tried, and its price.
import { count, exactDollars, plural } from "../../lib/format";
import { go, href, query } from "../../lib/route";
import { routingOf } from "../../lib/routing";
import type { ModelView as Model, ProviderView as Provider, RatesView as Rates } from "../../lib/types";
import { Badge, Button, Empty, Panel } from "../../ui/parts";
import { Latency, State, Wire } from "./health";
import { OtherRates } from "./prices";

const MOST = 15; // rows, until somebody wants all

const SOURCES: Record<string, string> = { list: "price list", config: "configuration", "built-in": "built in" };

export function ModelList(props: { models: Model[]; providers: Provider[] }) {
  const text = query.value.get("find") ?? "";
  const isAll = query.value.get("all") === "1";
  const found = props.models.filter((model) => isMeant(model, text));
  const shown = isAll ? found : found.slice(0, MOST);
  const adjust = (change: Record<string, string | null>) => go("/models", { ...Object.fromEntries(query.value), ...change }, { replace: true });
  if (!props.models.length) {
    return (
      <Panel title="Models">
        <Empty title="No models yet.">
          Add a provider to the configuration file (<code>[[providers]]</code>), and the models that callers use (<code>[[models]]</code>).
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel
      title="Models"
      flush
      class="models"
      actions={
        <input
          type="search"
          aria-label="Find a model"
          placeholder="Find a model"
          spellcheck={false}
          value={text}
          onInput={(event) => adjust({ find: event.currentTarget.value || null })}
        />
      }
    >
      {found.length ? <ModelTable models={shown} ejections={ejectionsOf(props.providers)} /> : <Empty title="No model matches." />}
      {found.length > shown.length && (
        <div class="pager">
          <span class="muted">
            The first {count(shown.length)} of {plural(found.length, "model")}
          </span>
          <Button onClick={() => adjust({ all: "1" })}>Show all</Button>
        </div>
      )}
      {isAll && found.length > MOST && (
        <div class="pager">
          <Button onClick={() => adjust({ all: null })}>Show fewer</Button>
        </div>
      )}
    </Panel>
  );
}

function ModelTable(props: { models: Model[]; ejections: Map<string, number> }) {
  const hasWeights = props.models.some((model) => model.targets.some((target) => target.weight !== null));
  const hasStages = props.models.some((model) => model.targets.some((target) => target.stage > 1));
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Models">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">Target</th>
            {hasStages && (
              <th scope="col" class="number">
                Stage
              </th>
            )}
            {hasWeights && (
              <th scope="col" class="number">
                Weight
              </th>
            )}
            <th scope="col">State</th>
            <th scope="col" class="number">
              First token
            </th>
            <th scope="col" class="number">
              Ejections
            </th>
            <th scope="col" class="number">
              Input / 1M
            </th>
            <th scope="col" class="number">
              Output / 1M
            </th>
            <th scope="col">Price from</th>
          </tr>
        </thead>
        {props.models.map((model) => (
          <Rows key={model.id} model={model} ejections={props.ejections} hasWeights={hasWeights} hasStages={hasStages} />
        ))}
      </table>
    </div>
  );
}

function Rows(props: { model: Model; ejections: Map<string, number>; hasWeights: boolean; hasStages: boolean }) {
  const { model } = props;
  const rows = model.targets.length || 1;
  return (
    <tbody class="grouped">
      {Array.from({ length: rows }, (_, place) => {
        const target = model.targets[place];
        return (
          <tr key={place}>
            {place === 0 && (
              <th scope="rowgroup" rowSpan={rows} class="clip">
                <span class="named">
                  <a class="clipped" href={href("/requests", { model: model.id })} title={model.id}>
                    {model.id}
                  </a>
                  {model.is_default && <Badge tone="accent">default</Badge>}
                </span>
                <Routing model={model} />
              </th>
            )}
            <td class="clip">
              {target ? (
                <span class="named">
                  <span class="mono clipped" title={`${target.provider}/${target.model}`}>
                    {target.provider}/{target.model}
                  </span>
                  <Wire wire={target.wire} />
                </span>
              ) : (
                <span class="muted">none</span>
              )}
            </td>
            {props.hasStages && <td class="number">{target && count(target.stage)}</td>}
            {props.hasWeights && <td class="number">{target && count(target.weight)}</td>}
            <td>{target && <State {...target} />}</td>
            <td class="number">{target && <Latency seconds={target.ttft_s} />}</td>
            <td class="number">{target && count(props.ejections.get(placeOf(target.provider, target.model)) ?? 0)}</td>
            {place === 0 && <Price rows={rows} rates={model.rates} source={model.source} />}
          </tr>
        );
      })}
    </tbody>
  );
}

function Routing(props: { model: Model }) {
  return (
    <>
      {routingOf(props.model).map((line) => (
        <span key={line} class="muted small clip-line" title={line}>
          {line}
        </span>
      ))}
    </>
  );
}

function Price(props: { rows: number; rates: Rates | null; source: string }) {
  const { rows, rates } = props;
  if (rates === null) {
    return (
      <td colSpan={3} rowSpan={rows} class="muted">
        no price
      </td>
    );
  }
  return (
    <>
      <td class="number" rowSpan={rows}>
        {exactDollars(rates.input_usd)}
      </td>
      <td class="number" rowSpan={rows}>
        {exactDollars(rates.output_usd)}
      </td>
      <td rowSpan={rows}>
        {SOURCES[props.source] ?? props.source}
        <OtherRates rates={rates} />
      </td>
    </>
  );
}

function placeOf(provider: string, model: string): string {
  return JSON.stringify([provider, model]);
}

function ejectionsOf(providers: Provider[]): Map<string, number> {
  return new Map(providers.flatMap((provider) => provider.targets.map((target) => [placeOf(provider.name, target.model), target.ejections] as const)));
}

function isMeant(model: Model, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return [model.id, ...model.targets.map((target) => `${target.provider}/${target.model}`)].some((name) => name.toLowerCase().includes(wanted));
}
