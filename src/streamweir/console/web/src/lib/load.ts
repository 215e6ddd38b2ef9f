// What a page needs from the server, asked for again when what it depends on changes. Only the newest question counts.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  reload: () => void;
}

// `ask` is called anew when one of `needs` changes; what was shown stays until the answer is there.
export function useLoad<T>(ask: (abort: AbortSignal) => Promise<T>, needs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: ApiError | null; isLoading: boolean }>({
    data: null,
    error: null,
    isLoading: true,
  });
  const [turn, setTurn] = useState(0);
  const asking = useRef(ask);
  asking.current = ask;
  useEffect(() => {
    const control = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    asking.current(control.signal).then(
      (data) => {
        if (!control.signal.aborted) setState({ data, error: null, isLoading: false });
      },
      (reason: unknown) => {
        if (!control.signal.aborted) setState((before) => ({ ...before, error: asError(reason), isLoading: false }));
      },
    );
    return () => control.abort();
  }, [...needs, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { ...state, reload };
}

export function asError(reason: unknown): ApiError {
  if (reason instanceof ApiError) return reason;
  return new ApiError(0, "fault", reason instanceof Error ? reason.message : String(reason));
}

// Asks again while somebody looks: never in a hidden tab, and at once when it is shown again.
export function useRefresh(reload: () => void, everyMs: number | null): void {
  useEffect(() => {
    if (everyMs === null) return;
    let timer: ReturnType<typeof setInterval> | undefined;
    const start = () => {
      clearInterval(timer);
      if (!document.hidden) timer = setInterval(reload, everyMs);
    };
    const turn = () => {
      if (!document.hidden) reload();
      start();
    };
    start();
    document.addEventListener("visibilitychange", turn);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", turn);
    };
  }, [reload, everyMs]);
}

// The time, for clocks on the page.
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
