// Which columns of the log are shown: those that are chosen, in the order of the table. Pure, but for the two that keep
// the choice in the browser. One that is not known any more is left out.

export interface Choosable {
  name: string;
  isAlways?: boolean;
  isUsual?: boolean; // until somebody chooses
}

export function chosenColumns<T extends Choosable>(all: readonly T[], kept: readonly string[] | null): T[] {
  return all.filter((column) => column.isAlways || (kept === null ? column.isUsual : kept.includes(column.name)));
}

export function readColumns(text: string | null): string[] | null {
  try {
    const found: unknown = JSON.parse(text ?? "null");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : null;
  } catch {
    return null;
  }
}

const NAME = "streamweir-columns";

export function keptColumns(): string[] | null {
  return readColumns(localStorage.getItem(NAME));
}

export function keepColumns(names: readonly string[] | null): void {
  if (names === null) localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, JSON.stringify(names));
}
