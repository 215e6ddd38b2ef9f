// The prices in force, looked through on the server and shown page by page.
import { useLayoutEffect, useState } from "preact/hooks";
import { get } from "../../lib/api";
import { count, exactDollars, NONE, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { otherRates } from "../../lib/rates";
import { go, query } from "../../lib/route";
import type { PriceView as Price, Prices, RatesView as Rates } from "../../lib/types";
import { Badge, Button, Empty, Panel, Problem, Waiting } from "../../ui/parts";
import { Table } from "../../ui/table";

const LIMIT = 25;

export function PriceList(props: { kinds: string[] }) {
  const asked = query.value;
  const model = asked.get("model");
  const provider = asked.get("provider");
  const cursor = Math.max(0, Math.floor(Number(asked.get("cursor"))) || 0);
  const { data, error, isLoading, reload } = useLoad(
    (abort) => get<Prices>("/api/prices", { model, provider, cursor, limit: LIMIT }, abort),
    [model, provider, cursor],
  );
  const adjust = (change: Record<string, string | number | null>) => go("/models", { ...Object.fromEntries(asked), ...change }, { replace: true });
  return (
    <Panel title="Prices" flush actions={data && <span class="muted small">{`${data.currency} per ${data.unit} · ${data.version}`}</span>}>
      <Search model={model} provider={provider} kinds={props.kinds} onSearch={(wanted) => adjust({ ...wanted, cursor: null })} />
      <Problem error={error} onRetry={reload} />
      {data ? <Rows page={data} /> : !error && <Waiting />}
      {data && (cursor > 0 || data.next !== null) && (
        <nav class="pager" aria-label="Pages of the price list">
          <span class="muted">
            {count(cursor + 1)} to {count(cursor + data.data.length)}
          </span>
          <Button disabled={cursor === 0 || isLoading} onClick={() => adjust({ cursor: cursor > LIMIT ? cursor - LIMIT : null })}>
            Back
          </Button>
          <Button disabled={data.next === null || isLoading} onClick={() => adjust({ cursor: data.next })}>
            Next
          </Button>
        </nav>
      )}
    </Panel>
  );
}

interface Wanted {
  model: string | null;
  provider: string | null;
}

function Search(props: Wanted & { kinds: string[]; onSearch: (wanted: Wanted) => void }) {
  const [model, setModel] = useState("");
  const [provider, setProvider] = useState("");
  // Before the page is painted: what is typed as soon as it is seen stays.
  useLayoutEffect(() => {
    setModel(props.model ?? "");
    setProvider(props.provider ?? "");
  }, [props.model, props.provider]);
  const search = (event: Event) => {
    event.preventDefault();
    props.onSearch({ model: model.trim() || null, provider: provider.trim() || null });
  };
  return (
    <form class="row within" role="search" aria-label="Prices" onSubmit={search} onChange={search}>
      <input
        type="search"
        aria-label="Part of the model name"
        placeholder="Model contains"
        spellcheck={false}
        value={model}
        onInput={(event) => setModel(event.currentTarget.value)}
      />
      <input
        type="search"
        aria-label="Provider, as named in the list"
        placeholder="Provider"
        spellcheck={false}
        list="price-providers"
        value={provider}
        onInput={(event) => setProvider(event.currentTarget.value)}
      />
      <datalist id="price-providers">
        {["alias", ...props.kinds].map((kind) => (
          <option key={kind} value={kind} />
        ))}
      </datalist>
      <Button type="submit">Find</Button>
      {(props.model || props.provider) && (
        <Button tone="quiet" onClick={() => props.onSearch({ model: null, provider: null })}>
          Clear
        </Button>
      )}
    </form>
  );
}

function Rows(props: { page: Prices }) {
  if (!props.page.data.length) return <Empty title="No price matches.">You can set your own prices in the configuration file.</Empty>;
  const amount = (show: (rates: Rates) => string | undefined) => (price: Price) => (price.rates ? exactDollars(show(price.rates)) : NONE);
  return (
    <Table
      label="Prices"
      rows={props.page.data}
      keyOf={(price) => JSON.stringify([price.provider, price.model])}
      columns={[
        { name: "Provider", class: "clip", show: (price) => price.provider },
        {
          name: "Model",
          class: "clip",
          show: (price) => (
            <span class="mono" title={price.model}>
              {price.model}
            </span>
          ),
        },
        { name: "Context", isNumber: true, show: (price) => short(price.context_window) },
        { name: "Input", isNumber: true, show: amount((rates) => rates.input_usd) },
        { name: "Output", isNumber: true, show: amount((rates) => rates.output_usd) },
        { name: "Cached input", isNumber: true, show: amount((rates) => rates.cache_read_usd) },
        { name: "More", show: (price) => (price.rates ? <OtherRates rates={price.rates} isCachedShown /> : <Badge tone="warn">no price</Badge>) },
      ]}
    />
  );
}

// What is charged beyond input and output, folded away.
export function OtherRates(props: { rates: Rates; isCachedShown?: boolean }) {
  const { cache_read_usd, ...others } = props.rates;
  const lines = otherRates(props.isCachedShown ? others : props.rates);
  if (!lines.length) return null;
  return (
    <details class="rates">
      <summary>{count(lines.length)} more</summary>
      <ul class="members">
        {lines.map((line) => (
          <li key={line.what}>
            <span class="muted">{line.what}</span> <span class="num">{line.text}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
