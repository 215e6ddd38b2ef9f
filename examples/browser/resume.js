// An answer of Streamweir in a page, which goes on after a lost connection: each event once, in order.
//
//   import { stream } from "./resume.js";
//
//   const leave = new AbortController(); // leave.abort() ends the answer, at the gateway too
//   const body = { model: "fast", messages: [{ role: "user", content: "Hello" }] };
//   for await (const data of stream("https://gateway.example.com", KEY, body, { signal: leave.signal })) {
//     if (data !== "[DONE]") show(JSON.parse(data).choices[0]?.delta.content ?? "");
//   }
//
// The gateway must allow the page's origin ([server.cors]). Everybody who opens the page can read its key: give it a
// budget, and few models. docs/streams.md says what the gateway keeps, and for how long.

const SILENCE_MS = 30_000; // Not even a keep-alive for so long: the connection is lost, though nobody says so.
const CAP_MS = 8_000;
const MOST = 10; // Attempts without a new event.
const TRANSIENT = new Set([408, 429, 500, 502, 503, 504]);

// Yields the data of every event. `path` is that of any API that streams. Throws a RequestFailed if the gateway refuses,
// and an Error if the rest of the answer cannot be had.
export async function* stream(url, key, body, { path = "/v1/chat/completions", signal } = {}) {
  const authorization = `Bearer ${key}`;
  const asked = {
    method: "POST",
    headers: {
      authorization,
      "content-type": "application/json",
      "idempotency-key": crypto.randomUUID(), // Asked again before the stream is known, it is still one answer.
      "x-streamweir-resumable": "true",
    },
    body: JSON.stringify({ ...body, stream: true }),
  };
  let id = null;
  let events = 0;
  let attempts = 0;
  let isOver = false;
  try {
    while (!isOver) {
      const [target, request] = id
        ? [`${url}/v1/streams/${id}?after=${events}`, { headers: { authorization } }]
        : [url + path, asked];
      const connection = new AbortController();
      const leave = () => connection.abort(signal.reason);
      signal?.throwIfAborted();
      signal?.addEventListener("abort", leave);
      let reason;
      try {
        const answer = await fetch(target, { ...request, signal: connection.signal });
        if (!answer.ok) throw new RequestFailed(answer.status, await answer.text());
        id ??= answer.headers.get("x-streamweir-stream");
        for await (const event of eventsOf(answer.body, connection)) {
          events += 1;
          attempts = 0;
          isOver ||= isEnd(event);
          yield event.data;
        }
        reason = "the connection was closed";
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof RequestFailed && !TRANSIENT.has(error.status)) {
          isOver = id === null || error.status === 404 || error.status === 410; // There is nothing to leave.
          throw error;
        }
        reason = error;
      } finally {
        signal?.removeEventListener("abort", leave);
        connection.abort();
      }
      if (isOver) return;
      if ((events && !id) || attempts === MOST) throw new Error(`the answer is not whole: ${reason}`);
      await pause(Math.random() * Math.min(CAP_MS, 250 * 2 ** attempts++), signal);
    }
  } finally {
    if (id && !isOver) {
      // Whoever leaves says so, else the gateway waits for them and reads on.
      fetch(`${url}/v1/streams/${id}`, { method: "DELETE", headers: { authorization }, keepalive: true }).catch(() => {});
    }
  }
}

export class RequestFailed extends Error {
  constructor(status, body) {
    super(`${status}: ${body}`);
    this.status = status;
    this.body = body;
  }
}

// The events that are whole. What arrived of one that is not comes again with the next connection.
async function* eventsOf(body, connection) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const silence = setTimeout(() => connection.abort(new Error(`silent for ${SILENCE_MS} ms`)), SILENCE_MS);
    let part;
    try {
      part = await reader.read();
    } finally {
      clearTimeout(silence);
    }
    if (part.done) return;
    const blocks = (waiting + part.value).split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
      const name = lines.find((line) => line.startsWith("event:"))?.slice(6).trim();
      if (data.length) yield { name, data: data.join("\n") }; // A comment is no event.
    }
  }
}

// How the APIs end a stream: an answer that ends without it was cut. An error is an end, too.
function isEnd({ name, data }) {
  if (data === "[DONE]" || name === "error" || name === "message_stop") return true;
  if (["response.completed", "response.incomplete", "response.failed"].includes(name)) return true;
  return data.startsWith('{"error"');
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    setTimeout(() => (signal?.removeEventListener("abort", leave), resolve()), ms);
    signal?.addEventListener("abort", leave, { once: true });
  });
}
