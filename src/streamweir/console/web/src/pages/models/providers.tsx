// The providers with their keys, what they were asked in a day and how often they failed; a test of each; and their
// targets: those that aliases name, and those that have failed.
import { useState } from "preact/hooks";
import { get, post } from "../../lib/api";
import { count, NONE } from "../../lib/format";
import { useLoad, useRefresh } from "../../lib/load";
import { may } from "../../lib/permission";
import { href } from "../../lib/route";
import type { NodeView as Node, Overview, Page as Rows, ProviderTest, ProviderView as Provider, TargetView as Target } from "../../lib/types";
import { Ago, At, Badge, Button, Dialog, Empty, Panel, Problem, Waiting } from "../../ui/parts";
import { Table } from "../../ui/table";
import { LastError, Latency, Process, State, Wire } from "./health";

interface Row {
  provider: Provider;
  target: Target;
}

export function ProviderList(props: { providers: Provider[] }) {
  const { providers } = props;
  const day = useLoad((abort) => get<Overview>("/api/overview", { period: "day", by: "provider" }, abort), []);
  const [tested, setTested] = useState<string | null>(null);
  const usage = new Map(day.data?.groups.map((each) => [each.group, each.usage]));
  const targets = providers.flatMap((provider) => provider.targets.map((target): Row => ({ provider, target })));
  const mayTest = may("providers.test");
  if (!providers.length) {
    return (
      <Panel title="Providers">
        <Empty title="No providers yet.">
          Add <code>[[providers]]</code> to the configuration file.
        </Empty>
      </Panel>
    );
  }
  return (
    <>
      <Panel title="Providers" flush class="models">
        <Table<Provider>
          label="Providers"
          rows={providers}
          keyOf={(provider) => provider.name}
          columns={[
            {
              name: "Provider",
              class: "clip",
              show: ({ name }) => (
                <a href={href("/requests", { provider: name })} title={name}>
                  {name}
                </a>
              ),
            },
            { name: "Kind", show: ({ kind }) => <Badge>{kind}</Badge> },
            { name: "Keys", class: "wide", show: (provider) => <Keys provider={provider} /> },
            { name: "Requests in a day", isNumber: true, show: ({ name }) => day.data && count(usage.get(name)?.requests ?? 0) },
            {
              name: "Errors in a day",
              isNumber: true,
              show: ({ name }) => {
                const errors = usage.get(name)?.errors ?? 0;
                return day.data && (errors ? <a class="bad" href={href("/requests", { provider: name, failed: true })}>{count(errors)}</a> : 0);
              },
            },
            mayTest && {
              name: "Test",
              head: <span class="visually-hidden">Test</span>,
              class: "end",
              show: ({ name }: Provider) => (
                <Button small aria-label={`Test ${name}`} onClick={() => setTested(name)}>
                  Test
                </Button>
              ),
            },
          ]}
        />
      </Panel>
      <Panel title="Targets" flush class="models">
        {targets.length ? <Targets rows={targets} /> : <Empty title="No targets yet.">Targets of aliases are shown here, and those that have failed.</Empty>}
      </Panel>
      {may("nodes.read") && <Processes />}
      {tested !== null && <Test key={tested} name={tested} onClose={() => setTested(null)} />}
    </>
  );
}

function Keys(props: { provider: Provider }) {
  const { credentials } = props.provider;
  if (!credentials.length) return <span class="muted">one or none</span>;
  return (
    <ul class="targets">
      {credentials.map((credential) => (
        <li key={credential.name}>
          <span class="mono clipped" title={`API key ${credential.name}`}>
            {credential.name}
          </span>
          <State {...credential} of={{ provider: props.provider.name, credential: credential.name }} />
          {credential.error !== null && (
            <span class="muted small">
              <LastError {...credential} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function Targets(props: { rows: Row[] }) {
  return (
    <Table<Row>
      label="Targets"
      rows={props.rows}
      keyOf={({ provider, target }) => JSON.stringify([provider.name, target.model, target.credential])}
      columns={[
        {
          name: "Target",
          class: "clip",
          show: ({ provider, target }) => (
            <span class="named">
              <a class="mono clipped" title={`${provider.name}/${target.model}`} href={href("/requests", { target: `${provider.name}/${target.model}` })}>
                {provider.name}/{target.model}
              </a>
              <Wire wire={target.wire} />
              {target.credential && <Badge title="The provider's API key">{target.credential}</Badge>}
            </span>
          ),
        },
        { name: "State", class: "wide", show: ({ provider, target }) => <State {...target} of={{ ...target, provider: provider.name }} /> },
        { name: "First token", isNumber: true, show: ({ target }) => <Latency seconds={target.ttft_s} /> },
        { name: "Running", isNumber: true, show: ({ target }) => count(target.running) },
        { name: "Ejections", isNumber: true, show: ({ target }) => count(target.ejections) },
        {
          name: "Last error",
          show: ({ provider, target }) =>
            target.error === null ? (
              <LastError {...target} />
            ) : (
              <a href={href("/requests", { target: `${provider.name}/${target.model}`, failed: true })}>
                <LastError {...target} />
              </a>
            ),
        },
        { name: "Used by", show: ({ target }) => (target.is_in_alias ? "alias" : <span class="muted">caller</span>) },
      ]}
    />
  );
}

// Whose sum this is.
function Processes() {
  const { data, error, reload } = useLoad((abort) => get<Rows<Node>>("/api/nodes", {}, abort), []);
  useRefresh(reload, 10_000);
  return (
    <Panel title="Processes" flush>
      <Problem error={error} onRetry={reload} />
      {data && (
        <Table<Node>
          label="Processes"
          rows={data.data}
          keyOf={(process) => process.instance}
          columns={[
            { name: "Process", show: (process) => <Process process={process} /> },
            { name: "Version", show: ({ version }) => version ?? NONE },
            { name: "Started", show: ({ started_ms }) => <Ago at={started_ms} /> },
            { name: "Running", isNumber: true, show: ({ requests }) => (requests === null ? NONE : count(requests)) },
            { name: "Report", show: ({ reported_ms }) => (reported_ms === null ? <Badge tone="warn" title="It has just started, or is of an older version">none</Badge> : <Ago at={reported_ms} />) },
          ]}
        />
      )}
    </Panel>
  );
}

const OUTCOMES = { ok: ["good", "works"], warn: ["warn", "unclear"], fail: ["bad", "fails"] } as const;

// Asked for with the dialog: what it finds is shown plainly, each key by itself.
function Test(props: { name: string; onClose: () => void }) {
  const { data, error, isLoading, reload } = useLoad<ProviderTest>(() => post(`/api/providers/${encodeURIComponent(props.name)}/test`), [props.name]);
  return (
    <Dialog title={`Test of ${props.name}`} onClose={props.onClose}>
      <div class="stack">
        <p class="muted">It is asked for its list of models, with each of its keys. That is never billed.</p>
        <Problem error={error} />
        {isLoading && <Waiting />}
        {data && !isLoading && (
          <>
            <ul class="results" aria-label="Results">
              {data.results.map(({ credential, outcome, message, advice }) => (
                <li key={credential}>
                  <Badge tone={OUTCOMES[outcome][0]}>{OUTCOMES[outcome][1]}</Badge>
                  <div>
                    {credential && <span class="mono">{credential}: </span>}
                    <span dir="auto">{message}</span>
                    {advice && <div class="muted small">{advice}</div>}
                  </div>
                </li>
              ))}
            </ul>
            <p class="muted small">
              <At at={data.at_ms} />
            </p>
          </>
        )}
        <div class="dialog-actions">
          <Button disabled={isLoading} onClick={reload}>
            Test again
          </Button>
          <Button onClick={props.onClose}>Close</Button>
        </div>
      </div>
    </Dialog>
  );
}
