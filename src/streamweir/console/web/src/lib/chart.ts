// Where the parts of a chart stand and what its axis says. Pure.
import { clock, shortDay } from "./format";

export const TIP_WIDTH = 224; // px, as the style has it
const TIP_GAP = 14;

// Beside the pointer: to the right of it if there is room, else to the left, and never out of the box.
export function tipLeft(pointer: number, width: number): number {
  const right = pointer + TIP_GAP;
  if (right + TIP_WIDTH <= width) return right;
  const left = pointer - TIP_GAP - TIP_WIDTH;
  return left >= 0 ? left : Math.max(0, width - TIP_WIDTH);
}

// A midnight is the day that begins; so are all where days are told apart.
export function timeLabel(ms: number, stepS: number): string {
  const time = clock(ms).slice(0, 5);
  return stepS >= 86_400 || time === "00:00" ? shortDay(ms) : time;
}

// The sum of what is stacked at one moment.
export function total(lines: readonly { values: readonly (number | null)[] }[], place: number): number {
  return lines.reduce((sum, line) => sum + (line.values[place] ?? 0), 0);
}
