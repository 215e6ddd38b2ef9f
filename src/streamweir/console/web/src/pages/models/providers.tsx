// The providers, their credentials if they have several, and those of their targets that aliases name or that have failed.
import { count } from "../../lib/format";
import { href } from "../../lib/route";
import type { ProviderView as Provider, TargetView as Target } from "../../lib/types";
import { Badge, Empty, Panel } from "../../ui/parts";
import { Latency, State, Wire } from "./health";

export function ProviderList(props: { providers: Provider[] }) {
  if (!props.providers.length) {
    return (
      <Panel title="Providers">
        <Empty title="No providers yet.">
          Add <code>[[providers]]</code> to the configuration file.
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel title="Providers" flush class="models">
      <div class="table-box" tabIndex={0} role="region" aria-label="Providers">
        <table>
          <thead>
            <tr>
              <th scope="col">Provider</th>
              <th scope="col">Kind</th>
              <th scope="col">Target</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                First token
              </th>
              <th scope="col" class="number">
                Ejections
              </th>
              <th scope="col">Used by</th>
            </tr>
          </thead>
          {props.providers.map((provider) => (
            <OneProvider key={provider.name} provider={provider} />
          ))}
        </table>
      </div>
      <p class="muted note">As seen by the process that answered, since it started. Other workers may differ.</p>
    </Panel>
  );
}

function OneProvider(props: { provider: Provider }) {
  const { name, kind, targets, credentials } = props.provider;
  const rows = targets.length || 1;
  const head = (
    <>
      <th scope="rowgroup" rowSpan={rows} class="clip">
        <a href={href("/requests", { provider: name })} title={name}>
          {name}
        </a>
      </th>
      <td rowSpan={rows}>
        <Badge>{kind}</Badge>
        {credentials.map((credential) => (
          <div key={credential.name} class="named">
            <span class="mono clipped" title={`API key ${credential.name}, refused ${count(credential.ejections)} times`}>
              {credential.name}
            </span>
            <State {...credential} />
          </div>
        ))}
      </td>
    </>
  );
  return (
    <tbody class="grouped">
      {targets.map((target, place) => (
        <tr key={`${target.model} ${target.credential}`}>
          {place === 0 && head}
          <TargetCells provider={name} target={target} />
        </tr>
      ))}
      {!targets.length && (
        <tr>
          {head}
          <td colSpan={5} class="muted">
            Not used by an alias, and no failures.
          </td>
        </tr>
      )}
    </tbody>
  );
}

function TargetCells(props: { provider: string; target: Target }) {
  const { target } = props;
  return (
    <>
      <td class="clip">
        <span class="named">
          <a class="mono clipped" title={target.model} href={href("/requests", { target: `${props.provider}/${target.model}` })}>
            {target.model}
          </a>
          <Wire wire={target.wire} />
          {target.credential && <Badge title="The provider's API key">{target.credential}</Badge>}
        </span>
      </td>
      <td>
        <State {...target} />
      </td>
      <td class="number">
        <Latency seconds={target.ttft_s} />
      </td>
      <td class="number">{count(target.ejections)}</td>
      <td>{target.is_in_alias ? "alias" : <span class="muted">caller</span>}</td>
    </>
  );
}
