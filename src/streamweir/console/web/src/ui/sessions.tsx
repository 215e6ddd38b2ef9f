// Open sessions, the last used first: since when, from where, and with which browser.
import type { ComponentChildren } from "preact";
import { browserOf } from "../lib/browser";
import type { OpenSessionView } from "../lib/types";
import { Ago, Badge, Button, Empty } from "./parts";
import { Table } from "./table";

type Row = OpenSessionView & { is_current?: boolean };

// `who`: whose they are, where they are not all of one.
export function Sessions<T extends Row>(props: { rows: readonly T[]; who?: (row: T) => ComponentChildren; onEnd: ((id: string) => void) | null }) {
  const { onEnd, who } = props;
  if (!props.rows.length) return <Empty title="No open sessions" />;
  return (
    <Table<T>
      label={who ? "Open sessions" : "Sessions"}
      rows={props.rows}
      keyOf={(row) => row.id}
      columns={[
        who && { name: "Whose", class: "clip", show: who },
        {
          name: "Browser",
          class: "clip",
          show: (row) => (
            <span title={row.browser ?? undefined}>
              <bdi>{browserOf(row.browser)}</bdi> {row.is_current && <Badge tone="accent">this one</Badge>}
            </span>
          ),
        },
        { name: "Address", show: (row) => row.address ?? "–" },
        { name: "Opened", class: "nowrap", show: (row) => <Ago at={row.created_ms} /> },
        { name: "Last used", class: "nowrap", show: (row) => <Ago at={row.used_ms} /> },
        onEnd && {
          name: "End",
          head: <span class="visually-hidden">End</span>,
          class: "end",
          show: (row: T) =>
            !row.is_current && (
              <Button small aria-label={`End the session from ${row.address ?? "an unknown address"}, ${browserOf(row.browser)}`} onClick={() => onEnd(row.id)}>
                End
              </Button>
            ),
        },
      ]}
    />
  );
}
