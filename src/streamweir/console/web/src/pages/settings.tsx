// What is configured, for the operator to read. It is changed in the file; secrets come masked from the server.
import { get } from "../lib/api";
import { NONE, plural } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, query } from "../lib/route";
import type { Settings as View } from "../lib/types";
import { Ago, Badge, Choice, Empty, Facts, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Table } from "../ui/table";

type Entry = View["sections"][number]["entries"][number];

const SHOWN = [
  ["set", "Set"],
  ["all", "All"],
] as const;

export function Settings() {
  const { data, error, reload } = useLoad((abort) => get<View>("/api/settings", {}, abort), []);
  return (
    <Page title="Settings" about="The active configuration, read-only. Change it in the configuration file.">
      <Problem error={error} onRetry={reload} />
      {data ? <Shown view={data} /> : !error && <Waiting />}
    </Page>
  );
}

function adjust(change: Record<string, string | null>): void {
  go("/settings", { ...Object.fromEntries(query.value), ...change }, { replace: true });
}

function Shown(props: { view: View }) {
  const { view } = props;
  const text = query.value.get("find") ?? "";
  const usual = view.sections.some((section) => section.entries.some((entry) => entry.is_set)) ? "set" : "all";
  const shown = SHOWN.find(([name]) => name === query.value.get("show"))?.[0] ?? usual;
  const sections = view.sections
    .map((section) => ({ ...section, entries: section.entries.filter((entry) => isMeant(entry, text, shown === "set")) }))
    .filter((section) => section.entries.length);
  return (
    <>
      <Panel title="This gateway">
        <Facts
          rows={[
            ["Version", view.version],
            ["Started", <Ago at={view.started_ms} />],
            ["Instance", <span class="mono">{view.instance}</span>],
            ["Configuration file", view.file === null ? "none (defaults)" : <span class="mono">{view.file}</span>],
            ["Store", <span class="mono">{view.store}</span>],
          ]}
        />
      </Panel>
      <div class="row" role="search" aria-label="Settings">
        <input
          type="search"
          aria-label="Find a setting"
          placeholder="Find a setting"
          spellcheck={false}
          value={text}
          onInput={(event) => adjust({ find: event.currentTarget.value || null })}
        />
        <Choice label="Which settings" value={shown} options={SHOWN} onChange={(chosen) => adjust({ show: chosen === usual ? null : chosen })} />
        <span class="muted" role="status">
          {plural(
            sections.reduce((total, section) => total + section.entries.length, 0),
            "setting",
          )}
        </span>
      </div>
      {sections.map((section) => (
        <Panel key={section.name} title={section.name} flush>
          <Table
            label={section.name}
            rows={section.entries}
            keyOf={(entry) => entry.path}
            columns={[
              { name: "Setting", class: "setting-path", show: (entry) => <code class="break">{entry.path}</code> },
              { name: "Value", class: "setting-value", show: (entry) => <Value entry={entry} /> },
              { name: "From", class: "setting-from", show: (entry) => (entry.is_set ? <Badge tone="accent">set</Badge> : <Badge>default</Badge>) },
            ]}
          />
        </Panel>
      ))}
      {!sections.length && (
        <Panel>
          <Empty title="No setting matches.">{shown === "set" ? "Only changed settings are shown. Try All." : "Search for a part of its name or value."}</Empty>
        </Panel>
      )}
    </>
  );
}

function Value(props: { entry: Entry }) {
  const { value, is_secret } = props.entry;
  return (
    <>
      {value === "" ? <span class="muted">{NONE}</span> : <code class="break">{value}</code>} {is_secret && value.includes("*") && <Badge title="Only the last characters are shown, or none">secret</Badge>}
    </>
  );
}

function isMeant(entry: Entry, text: string, onlySet: boolean): boolean {
  if (onlySet && !entry.is_set) return false;
  const wanted = text.toLowerCase();
  return entry.path.toLowerCase().includes(wanted) || entry.value.toLowerCase().includes(wanted);
}
