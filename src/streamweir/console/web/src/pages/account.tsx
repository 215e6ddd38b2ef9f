// The account of whoever has signed in by name.
import { get } from "../lib/api";
import { useLoad } from "../lib/load";
import { ROLES } from "../lib/permission";
import type { OwnView } from "../lib/types";
import { Ago, Facts, Page, Panel, Problem, Waiting } from "../ui/parts";

export function Account() {
  const { data, error, reload } = useLoad((abort) => get<OwnView>("/api/me", {}, abort), []);
  return (
    <Page title="Account">
      <Problem error={error} onRetry={reload} />
      {!data ? (
        !error && <Waiting />
      ) : (
        <Panel title="You">
          <Facts
            rows={[
              ["Name", <bdi>{data.person.name}</bdi>],
              ["Role", ROLES[data.person.role]],
              data.workspace_name === null ? null : ["Workspace", <bdi>{data.workspace_name}</bdi>],
              ["Last sign-in", <Ago at={data.person.seen_ms} />],
            ]}
          />
        </Panel>
      )}
    </Page>
  );
}
