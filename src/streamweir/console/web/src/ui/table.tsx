// A table of rows that are all alike. On a phone each row is a card: the first cell is its heading, a cell of the class
// `wide` or `end` has a line of its own, an empty one is left out, and all others stand below the name of their column. The
// roles say that it is a table: a browser may forget it where rows are not laid out as rows.
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
  columns: readonly (Column<T> | null | false | undefined)[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  dimmed?: (row: T) => boolean;
}) {
  const columns = props.columns.filter((column): column is Column<T> => Boolean(column));
  return (
    <div class="table-box cards" tabIndex={0} role="region" aria-label={props.label}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.name} role="columnheader" scope="col" class={column.isNumber ? "number" : column.class}>
                {column.head ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)} role="row" class={props.dimmed?.(row) ? "dimmed" : undefined}>
              {columns.map((column) => (
                <td key={column.name} role="cell" data-label={column.name} class={column.isNumber ? "number" : column.class}>
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
