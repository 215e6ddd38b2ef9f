// The models by name: each with its targets in the order they are tried, and its price, of which it is said whose it is.
import { count, exactDollars, plural } from "../../lib/format";
import { go, href, query } from "../../lib/route";
import { ownerOf, routingOf } from "../../lib/routing";
import type { ModelTargetView as Target, ModelView as Model } from "../../lib/types";
import { Badge, Button, Empty, Panel } from "../../ui/parts";
import { Table } from "../../ui/table";
import { Latency, State, Wire } from "./health";
import { OtherRates } from "./prices";

const MOST = 15; // rows, until somebody wants all

export function ModelList(props: { models: Model[] }) {
  const asked = query.value;
  const text = asked.get("find") ?? "";
  const isAll = asked.has("all");
  const found = props.models.filter((model) => isMeant(model, text));
  const shown = isAll ? found : found.slice(0, MOST);
  const adjust = (change: Record<string, string | null>) => go("/models", { ...Object.fromEntries(query.value), ...change }, { replace: true });
  return (
    <Panel
      title="Routes"
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
      {found.length ? <ModelTable models={shown} /> : <Empty title="No model matches." />}
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

function ModelTable(props: { models: Model[] }) {
  return (
    <Table<Model>
      label="Models"
      rows={props.models}
      keyOf={(model) => model.id}
      columns={[
        { name: "Model", class: "clip", show: (model) => <Name model={model} /> },
        { name: "Targets", class: "wide", show: (model) => <Targets model={model} /> },
        { name: "Input / 1M", isNumber: true, show: ({ rates }) => rates && exactDollars(rates.input_usd) },
        { name: "Output / 1M", isNumber: true, show: ({ rates }) => rates && exactDollars(rates.output_usd) },
        { name: "Price of", class: "wide", show: (model) => <Owner model={model} /> },
      ]}
    />
  );
}

function Name(props: { model: Model }) {
  const { model } = props;
  return (
    <>
      <span class="named">
        <a class="clipped" href={href("/requests", { model: model.id })} title={model.id}>
          {model.id}
        </a>
        {model.is_default && <Badge tone="accent">default</Badge>}
      </span>
      {routingOf(model).map((line) => (
        <span key={line} class="muted small clip-line" title={line}>
          {line}
        </span>
      ))}
    </>
  );
}

function Targets(props: { model: Model }) {
  const { targets } = props.model;
  const hasStages = targets.some((target) => target.stage > 1);
  if (!targets.length) return <span class="muted">none</span>;
  return (
    <ul class="targets">
      {targets.map((target) => (
        <li key={`${target.provider}/${target.model}`}>
          <span class="mono clipped" title={`${target.provider}/${target.model}`}>
            {target.provider}/{target.model}
          </span>
          <State {...target} of={target} />
          <Wire wire={target.wire} />
          <span class="muted small nowrap">{aboutOf(target, hasStages)}</span>
          {target.ttft_s !== null && (
            <span class="small nowrap" title="Recent time to the first token">
              <Latency seconds={target.ttft_s} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function aboutOf(target: Target, hasStages: boolean): string {
  return [hasStages ? `stage ${target.stage}` : "", target.weight === null ? "" : `weight ${target.weight}`].filter(Boolean).join(", ");
}

function Owner(props: { model: Model }) {
  const { model } = props;
  if (model.rates === null) return <span class="muted">no price</span>;
  const { whose, more } = ownerOf(model);
  return (
    <>
      <span class="clip-line" title={whose}>
        {whose}
      </span>
      {more && <span class="muted small clip-line">{more}</span>}
      <OtherRates rates={model.rates} />
    </>
  );
}

function isMeant(model: Model, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return [model.id, ...model.targets.map((target) => `${target.provider}/${target.model}`)].some((name) => name.toLowerCase().includes(wanted));
}
