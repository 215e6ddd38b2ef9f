// The lines of the configuration that are shown, and their text as a file with the origins as comments.
import type { Line, Section } from "./types";

// Without defaults, and with a part of the path, the text or the origin. A heading stays above what is left below it.
export function shownSections(sections: readonly Section[], hasDefaults: boolean, part: string): Section[] {
  const wanted = part.toLowerCase();
  const isMeant = (line: Line) => (hasDefaults || !line.is_default) && [line.path, line.text, line.about].some((text) => text.toLowerCase().includes(wanted));
  return sections
    .map((section) => ({ ...section, lines: section.lines.filter((line, at) => isMeant(line) || (line.origin === null && ownLines(section, at).some(isMeant))) }))
    .filter((section) => section.lines.length);
}

function ownLines(section: Section, heading: number): Line[] {
  const next = section.lines.findIndex((line, at) => at > heading && line.origin === null);
  return section.lines.slice(heading + 1, next < 0 ? undefined : next);
}

export function textOf(sections: readonly Section[]): string {
  const blocks = sections.flatMap((section) => section.lines.map((line) => `${line.origin === null ? "\n" : ""}${line.text}${line.about && `  # ${line.about}`}\n`));
  return blocks.join("").trimStart();
}
