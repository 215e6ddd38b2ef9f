// The configuration in use as TOML, with where each value comes from, and what the last reloads changed. It is changed in
// the file; secrets come masked from the server.
import { get } from "../lib/api";
import { NONE, plural } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, query } from "../lib/route";
import { shownSections, textOf } from "../lib/toml";
import type { Reload, Settings as View } from "../lib/types";
import { Ago, At, Badge, Choice, CopyButton, Empty, Facts, Page, Panel, Problem, Waiting } from "../ui/parts";
import { Table } from "../ui/table";

const SHOWN = [
  ["set", "Set"],
  ["all", "With defaults"],
] as const;

export function Settings() {
  const { data, error, reload } = useLoad((abort) => get<View>("/api/settings", {}, abort), []);
  return (
    <Page title="Settings" about="The configuration in use, read-only. Change it in the configuration file.">
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
  const part = query.value.get("find") ?? "";
  const hasDefaults = query.value.get("show") === "all";
  const sections = shownSections(view.sections, hasDefaults, part);
  const lines = sections.flatMap((section) => section.lines).filter((line) => line.origin !== null);
  return (
    <>
      <Panel title="This gateway">
        <Facts
          rows={[
            ["Version", view.version],
            ["Started", <Ago at={view.started_ms} />],
            ["Instance", <span class="mono">{view.instance}</span>],
            ["Configuration file", view.file === null ? "none (defaults)" : <span class="mono break">{view.file}</span>],
            ["Store", <span class="mono break">{view.store}</span>],
            view.reloads.length ? null : ["Last reload", "none since the start"],
          ]}
        />
      </Panel>
      {view.reloads.length > 0 && (
        <Panel title="Last reloads">
          {view.reloads.map((each, at) => (
            <OneReload key={`${view.reloads.length - at} ${each.at_ms}`} reload={each} isLast={at === 0} />
          ))}
        </Panel>
      )}
      <div class="row" role="search" aria-label="Settings">
        <input
          type="search"
          aria-label="Find a setting"
          placeholder="Find a setting"
          spellcheck={false}
          value={part}
          onInput={(event) => adjust({ find: event.currentTarget.value || null })}
        />
        <Choice label="Which settings" value={hasDefaults ? "all" : "set"} options={SHOWN} onChange={(chosen) => adjust({ show: chosen === "all" ? chosen : null })} />
        <span class="muted" role="status">
          {plural(lines.length, "setting")}
        </span>
      </div>
      <Panel title="Configuration" actions={<CopyButton label="Copy as TOML" text={() => textOf(shownSections(view.sections, hasDefaults, ""))} />}>
        {sections.length > 1 && (
          <nav class="toml-nav" aria-label="Sections">
            {sections.map((section) => (
              <a key={section.name} href={`#${encodeURIComponent(section.name)}`}>
                {section.name}
              </a>
            ))}
          </nav>
        )}
        {sections.map((section) => (
          <section key={section.name} id={section.name} class="toml" aria-label={section.name}>
            {section.lines.map((line) => (
              <div key={line.path + line.origin} class={line.origin === null ? "toml-head" : line.is_default ? "muted" : ""}>
                <code>{line.text}</code> {line.about && !line.is_default && <span class="muted small"># {line.about}</span>}
              </div>
            ))}
          </section>
        ))}
        {!sections.length && (
          <Empty title={part ? "No setting matches." : "Every setting has its default."}>
            {part && hasDefaults ? "Search for a part of its name, its value or its origin." : "Choose With defaults to see all settings."}
          </Empty>
        )}
      </Panel>
    </>
  );
}

function OneReload(props: { reload: Reload; isLast: boolean }) {
  const { reload } = props;
  const changed = reload.changes.length + reload.more_changes;
  return (
    <details class="fold" open={props.isLast}>
      <summary>
        <At at={reload.at_ms} /> ·{" "}
        {reload.is_taken ? changed ? plural(changed, "change") : "no changes" : <Badge tone="bad">refused</Badge>}
        {reload.cause === "secret" && " for a secret that changed"}
      </summary>
      {!reload.is_taken && <p>The configuration from before stays in use. Correct the file and reload again.</p>}
      {reload.problems.map((problem, at) => (
        <pre key={at}>{problem}</pre>
      ))}
      {reload.changes.length > 0 && (
        <Table
          label="Changes"
          rows={reload.changes}
          keyOf={(change) => change.path + change.what}
          columns={[
            { name: "Setting", show: (change) => <code class="break">{change.path}</code> },
            { name: "Before", show: (change) => <Text toml={change.before} /> },
            { name: "After", show: (change) => <Text toml={change.after} /> },
            { name: "Takes effect", show: (change) => (change.needs_restart ? <Badge tone="warn">at a restart</Badge> : "now") },
          ]}
        />
      )}
      {reload.more_changes > 0 && <p class="muted">And {plural(reload.more_changes, "change")} more.</p>}
    </details>
  );
}

function Text(props: { toml: string }) {
  return props.toml ? <code class="break">{props.toml}</code> : <span class="muted">{NONE}</span>;
}
