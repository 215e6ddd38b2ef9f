// The names of the workspaces, which rows give by id, and a choice among them. A workspace that came by link can be
// chosen whether it is known or not.
import { get } from "../lib/api";
import { useLoad } from "../lib/load";
import { may } from "../lib/permission";
import type { Page as Rows, Workspace } from "../lib/types";
import { Select } from "./parts";

export interface Workspaces {
  list: Workspace[];
  nameOf: (id: string) => string;
  reload: () => void;
}

export function useWorkspaces(): Workspaces {
  const { data, reload } = useLoad((abort) => (may("workspaces.read") ? get<Rows<Workspace>>("/api/workspaces", { limit: 1000 }, abort) : Promise.resolve(null)), []);
  const list = data?.data ?? [];
  return { list, nameOf: (id) => list.find((each) => each.id === id)?.name ?? id, reload };
}

export function WorkspaceSelect(props: { id?: string; label?: string; all?: string; value: string; workspaces: Workspaces; onChange: (id: string) => void }) {
  const known = props.workspaces.list.map((each) => [each.id, each.name] as const);
  const own = props.value && !known.some(([id]) => id === props.value) ? [[props.value, props.value] as const] : [];
  const all = props.all ? [["", props.all] as const] : [];
  return (
    <Select<string>
      {...(props.id ? { id: props.id } : {})}
      {...(props.label ? { label: props.label } : {})}
      value={props.value}
      options={[...all, ...own, ...known]}
      onChange={props.onChange}
    />
  );
}
