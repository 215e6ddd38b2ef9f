// The requests beside this one, in the list from which one came: the filters of the log are in the address.
import { useLayoutEffect } from "preact/hooks";
import { get } from "../../lib/api";
import { asked, readFilters } from "../../lib/filters";
import { useLoad } from "../../lib/load";
import { scoped } from "../../lib/permission";
import { go, href, query } from "../../lib/route";
import type { Page as Rows, RequestDetail, RequestView } from "../../lib/types";

const MOST_PAGES = 5; // a page of a rare match may be empty, and lead on

export function Neighbours(props: { row: RequestDetail }) {
  const { row } = props;
  const filters = readFilters(query.value);
  const isFiltered = Object.keys(filters).length > 0;
  const place = JSON.stringify([row.cursor, filters]);
  const loaded = useLoad(
    async (abort) => {
      const question = asked(filters, Date.now());
      const [newer, older] = await Promise.all([beside("oldest"), beside("newest")]);
      return { place, newer, older };

      async function beside(order: string): Promise<string | null> {
        let cursor: string | number | null = row.cursor;
        for (let pages = 0; cursor !== null && pages < MOST_PAGES; pages++) {
          const found: Rows<RequestView> = await get(scoped("/requests"), { ...question, order, cursor, limit: 1 }, abort);
          if (found.data[0]) return found.data[0].request_id;
          cursor = found.next;
        }
        return null;
      }
    },
    [place],
  );
  const data = loaded.data?.place === place ? loaded.data : null; // not those beside the request before
  const address = (id: string): [string, Record<string, string>] => [`/requests/${encodeURIComponent(id)}`, Object.fromEntries(query.value)];
  // Before the page is painted: a key that is pressed when the links are seen leads where they lead.
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const id = { ArrowLeft: data?.newer, ArrowRight: data?.older }[event.key];
      const target = event.target as HTMLElement;
      // Where the arrows mean something else, they do that.
      if (!id || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || target.closest("input, textarea, select, dialog, [tabindex='0']")) return;
      event.preventDefault();
      go(...address(id));
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [data]);
  const link = (name: string, sign: string, id: string | null | undefined) =>
    id ? (
      <a class="button small" href={href(...address(id))} title={`${name} request${isFiltered ? " that matches the filters" : ""} (${sign} key)`}>
        {name}
      </a>
    ) : (
      <button type="button" class="button small" disabled>
        {name}
      </button>
    );
  return (
    <nav class="actions" aria-label="Requests beside this one">
      {isFiltered && (
        <a class="button small" href={href("/requests", filters)}>
          All matches
        </a>
      )}
      {link("Newer", "←", data?.newer)}
      {link("Older", "→", data?.older)}
    </nav>
  );
}
