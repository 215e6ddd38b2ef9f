// A table of rows that are all alike. On a narrow screen it scrolls sideways within itself; the page does not.
import type { ComponentChildren } from "preact";

export interface Column<T> {
  name: string;
  head?: ComponentChildren; // where it is more than the name
  show: (row: T) => ComponentChildren;
  isNumber?: boolean;
  class?: string;
}

export function Table<T>(props: {
  label: string;
  columns: readonly (Column<T> | null | false)[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  dimmed?: (row: T) => boolean;
}) {
  const columns = props.columns.filter((column): column is Column<T> => Boolean(column));
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.isNumber ? "number" : column.class}>
                {column.head ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)} class={props.dimmed?.(row) ? "dimmed" : undefined}>
              {columns.map((column) => (
                <td key={column.name} class={column.isNumber ? "number" : column.class}>
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
