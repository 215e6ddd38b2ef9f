// A frame as it is read: without the members of its JSON that are the same as in the frame of its kind before it. Those
// are two hundred characters around each token. Pure. What the model has sent is never left out, nor is an error.
import { isObject, readObject, type Json } from "./json";
import type { SseFrame } from "./sse";

export const FOLDED = "…";
const LONGEST = 20_000; // a longer frame is shown as it is

// Whatever these are named in the APIs, they are what the frame is there for.
const ALWAYS = new Set(["delta", "text", "content", "usage", "error", "finish_reason", "stop_reason"]);

// Of one stream: it remembers the last frame of each kind.
export class Folder {
  #before = new Map<string, Json>();

  // Null: there is nothing to fold.
  fold(frame: Pick<SseFrame, "raw" | "event" | "data">): string | null {
    if (frame.data === null || frame.raw.length > LONGEST) return null;
    const now = readObject(frame.data);
    if (!now) return null;
    const kind = `${frame.event ?? ""} ${String(now.type ?? now.object ?? "")}`;
    const before = this.#before.get(kind);
    this.#before.set(kind, now);
    if (!before) return null;
    const { text, isFolded } = shortened(now, before);
    return isFolded ? withData(frame.raw, text || `{${FOLDED}}`) : null;
  }
}

// Of several lines of data the first stands for all.
function withData(raw: string, text: string): string {
  const lines = raw.trimEnd().split(/\r\n|\r|\n/);
  const first = lines.findIndex(isData);
  return lines.flatMap((line, place) => (!isData(line) ? [line] : place === first ? [`data: ${text}`] : [])).join("\n");
}

function isData(line: string): boolean {
  return line === "data" || line.startsWith("data:");
}

// `text` is empty where all of it is left out.
interface Short {
  text: string;
  isFolded: boolean;
}

const NOTHING: Short = { text: "", isFolded: true };

function shortened(now: unknown, before: unknown): Short {
  if (isObject(now) && isObject(before)) return within(Object.entries(now).map(([name, value]) => memberOf(name, value, before)), "{", "}");
  if (Array.isArray(now) && Array.isArray(before) && now.length === before.length) {
    return within(now.map((value, place) => shortened(value, before[place])), "[", "]");
  }
  return now === before ? NOTHING : { text: JSON.stringify(now), isFolded: false };
}

function memberOf(name: string, value: unknown, before: Json): Short {
  const isMeant = ALWAYS.has(name) && value !== null;
  const { text, isFolded } = isMeant ? { text: JSON.stringify(value), isFolded: false } : shortened(value, before[name]);
  return text ? { text: `${JSON.stringify(name)}:${text}`, isFolded } : NOTHING;
}

function within(parts: Short[], open: string, close: string): Short {
  if (!parts.some((part) => part.text)) return NOTHING;
  const shown = parts.map((part) => part.text || FOLDED).filter((text, place, all) => text !== FOLDED || all[place - 1] !== FOLDED);
  return { text: open + shown.join(",") + close, isFolded: parts.some((part) => part.isFolded) };
}
