// How the playground is opened with a draft (`repeat.ts` makes one of a request). It goes by memory, never in the address.
import type { Draft } from "./draft";
import { go } from "./route";

interface Handover {
  key?: string;
  model?: string;
  dialect?: string;
  draft: Partial<Draft>;
}

let handed: Partial<Draft> | null = null;

// Fills in the form; nothing is sent by itself.
export function openInPlayground(what: Handover): void {
  const { draft, ...address } = what;
  handed = draft;
  go("/playground", address);
}

// Once: the next visit finds what is kept.
export function takeHanded(): Partial<Draft> | null {
  const taken = handed;
  handed = null;
  return taken;
}
