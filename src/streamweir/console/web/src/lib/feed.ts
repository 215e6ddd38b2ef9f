// The streams in flight, as the gateway tells them each second. Open only while somebody looks: closed when the tab is
// hidden or the page is left. A connection that breaks is tried again, further and further apart, and the page says so.
import { useEffect, useRef, useState } from "preact/hooks";
import { loadSession } from "./api";
import { backoff } from "./pace";
import type { LiveEvent } from "./types";

export interface Feed {
  snapshot: LiveEvent | null;
  behindMs: number; // how far the clock of this browser is behind the gateway's
  state: "opening" | "open" | "away" | "lost"; // away: the gateway is there, its database is not
  retryMs: number | null; // when the next try is
  retry: () => void;
}

export function useLiveFeed(): Feed {
  const [feed, setFeed] = useState<Omit<Feed, "retry">>({ snapshot: null, behindMs: 0, state: "opening", retryMs: null });
  const [turn, setTurn] = useState(0);
  const tries = useRef(0);
  useEffect(() => {
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = null;
    };
    const open = () => {
      close();
      source = new EventSource("/api/live/events");
      source.addEventListener("live", (event) => {
        tries.current = 0;
        const snapshot = JSON.parse((event as MessageEvent<string>).data) as LiveEvent;
        setFeed({ snapshot, behindMs: snapshot.at_ms - Date.now(), state: "open", retryMs: null });
      });
      source.addEventListener("away", () => setFeed((before) => ({ ...before, state: "away" })));
      source.addEventListener("over", again);
      source.addEventListener("error", again);
    };
    // A refusal looks like a broken connection here, so the session is asked for: where it has ended, this page goes.
    const again = () => {
      close();
      const wait = backoff(tries.current++);
      setFeed((before) => ({ ...before, state: "lost", retryMs: Date.now() + wait }));
      timer = setTimeout(open, wait);
      loadSession().catch(() => undefined); // the gateway does not answer: that is known already
    };
    const look = () => (document.hidden ? close() : open());
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      close();
    };
  }, [turn]);
  const retry = () => {
    tries.current = 0;
    setTurn((before) => before + 1);
  };
  return { ...feed, retry };
}
