// What is said where the log shows no row, and why: which filter leaves nothing, found by asking without each of them.
import { get } from "../../lib/api";
import { asked, chipsOf, without, type FilterName, type Filters } from "../../lib/filters";
import { useLoad } from "../../lib/load";
import { may, mayCreateKeys, scoped } from "../../lib/permission";
import { href } from "../../lib/route";
import type { Page as Rows, RequestView } from "../../lib/types";
import { Button, Empty } from "../../ui/parts";
import type { Changes } from "./filters";

interface NothingProps {
  filters: Filters;
  isFirst: boolean;
  nameOf: (id: string) => string | undefined;
  onOlder: (() => void) | null;
  onChange: (changes: Changes) => void;
}

export function NoRows(props: NothingProps) {
  if (props.onOlder) {
    return (
      <Empty
        title="No match in the part of the log searched so far."
        action={
          <Button tone="accent" onClick={props.onOlder}>
            Search older requests
          </Button>
        }
      >
        The server searches a limited number of requests at a time. Older ones may match.
      </Empty>
    );
  }
  if (Object.keys(props.filters).length) return <NoMatch {...props} />;
  if (!props.isFirst) return <Empty title="No older requests." action={<a href={href("/requests")}>Show newest</a>} />;
  return <NoRequests />;
}

function NoMatch(props: NothingProps) {
  const { filters, nameOf } = props;
  const { data, isLoading } = useLoad((abort) => culprits(filters, abort), [JSON.stringify(filters)]);
  const remove = (names: readonly FilterName[]) => props.onChange(Object.fromEntries(names.map((name) => [name, null])));
  const textOf = (names: readonly FilterName[]) =>
    chipsOf(Object.fromEntries(names.map((name) => [name, filters[name]])), nameOf)
      .map((chip) => chip.text)
      .join(", ");
  return (
    <Empty title="No request matches." action={<a href={href("/requests")}>Show all requests</a>}>
      {filters.id && <p>Search for a request id (x-request-id), its first 12 characters or more, its last 6 or more, or the id in its answer.</p>}
      {data?.length ? (
        <>
          <p>There are requests without this filter:</p>
          <ul class="chips">
            {data.map((names) => (
              <li key={names[0]}>
                <button type="button" class="chip" onClick={() => remove(names)}>
                  <bdi>{textOf(names)}</bdi>
                  <span aria-hidden="true">✕</span>
                  <span class="visually-hidden">remove</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      ) : (
        !isLoading && Object.keys(filters).length > 1 && <p>None matches with one filter less, either.</p>
      )}
    </Empty>
  );
}

const MOST = 8;

async function culprits(filters: Filters, abort: AbortSignal): Promise<FilterName[][]> {
  const tries = without(filters).slice(0, MOST);
  const found = await Promise.all(tries.map(({ rest }) => get<Rows<RequestView>>(scoped("/requests"), { ...asked(rest, Date.now()), limit: 1 }, abort)));
  return tries.filter((_, place) => found[place]?.data.length).map(({ names }) => names);
}

function NoRequests() {
  return (
    <Empty
      title="No requests yet."
      action={
        <>
          {may("playground") && (
            <a class="button accent" href={href("/playground")}>
              Try a model in the playground
            </a>
          )}
          {mayCreateKeys() && (
            <a class="button" href={href("/keys")}>
              Create a key
            </a>
          )}
        </>
      }
    >
      <p>Send one with any OpenAI SDK, or with curl:</p>
      <pre class="sample">{`curl ${location.origin}/v1/chat/completions \\
  -H "Authorization: Bearer $STREAMWEIR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "…", "messages": [{"role": "user", "content": "Hello!"}]}'`}</pre>
    </Empty>
  );
}
