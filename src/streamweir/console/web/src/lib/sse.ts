// A stream of server-sent events, cut anywhere, back into frames. Keeps the bytes as text beside what they say: the
// playground shows both. Pure.

export interface SseFrame {
  raw: string; // with its line ends
  event: string | null;
  data: string | null; // null: comments alone
}

export class SseSplitter {
  #rest = "";
  #decoder = new TextDecoder();

  push(bytes: Uint8Array): SseFrame[] {
    return this.#split(this.#decoder.decode(bytes, { stream: true }), BLANK);
  }

  // No more bytes will come. `rest` is what the stream ended with and was no whole frame.
  end(): { frames: SseFrame[]; rest: string } {
    const frames = this.#split(this.#decoder.decode(), LAST_BLANK);
    const rest = this.#rest;
    this.#rest = "";
    return { frames, rest };
  }

  #split(text: string, blank: RegExp): SseFrame[] {
    this.#rest += text;
    const frames: SseFrame[] = [];
    for (;;) {
      const found = blank.exec(this.#rest);
      if (!found) return frames;
      const end = found.index + found[0].length;
      frames.push(readFrame(this.#rest.slice(0, end)));
      this.#rest = this.#rest.slice(end);
    }
  }
}

// The blank line that ends a frame. A CR at the very end may be half of a line end: it waits, unless it is the last.
const BLANK = /(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r(?!$|\n)|\n)/;
const LAST_BLANK = /(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)/;

export function readFrame(raw: string): SseFrame {
  let event: string | null = null;
  const data: string[] = [];
  for (const line of raw.split(/\r\n|\r|\n/)) {
    if (!line || line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
  }
  return { raw, event, data: data.length ? data.join("\n") : null };
}
