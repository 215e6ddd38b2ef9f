// What a form sends: whether it is under way, and what the server has against it.
import { useState } from "preact/hooks";
import type { ApiError } from "./api";
import { asError } from "./load";

export interface Sending {
  error: ApiError | null;
  isBusy: boolean;
  send: (ask: () => Promise<unknown>) => Promise<void>;
}

// `onDone` comes only if all went well.
export function useSending(onDone: () => void = () => undefined): Sending {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const send = async (ask: () => Promise<unknown>) => {
    setIsBusy(true);
    setError(null);
    try {
      await ask();
      onDone();
    } catch (reason) {
      setError(asError(reason));
    }
    setIsBusy(false);
  };
  return { error, isBusy, send };
}
