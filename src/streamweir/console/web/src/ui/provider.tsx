// The way in at the identity provider: a button that leads there, and what a way back without success means.
import { useState } from "preact/hooks";
import { ApiError, get } from "../lib/api";
import { useLoad } from "../lib/load";
import { failure, leave } from "../lib/provider";
import { useSending } from "../lib/sending";
import type { LoginOptions } from "../lib/types";
import { Button, Problem } from "./parts";

// What the identity provider is called. Null: there is none.
export function useProvider(): string | null {
  return useLoad((abort) => get<LoginOptions>("/api/login", {}, abort), []).data?.oidc ?? null;
}

export function ProviderButton(props: { name: string }) {
  const [hasLeft, setHasLeft] = useState(false);
  const { error, isBusy, send } = useSending(() => setHasLeft(true));
  return (
    <>
      <Problem error={error} />
      <Button disabled={isBusy || hasLeft} onClick={() => void send(leave)}>
        <span>
          Sign in with <bdi>{props.name}</bdi>
        </span>
      </Button>
    </>
  );
}

// On the page of those who are not signed in. Nothing, where there is no identity provider.
export function ProviderGate() {
  const name = failure.value;
  const { data } = useLoad((abort) => get<LoginOptions>("/api/login", { failure: name }, abort), [name]);
  if (!data || (data.oidc === null && data.failure === null)) return null;
  return (
    <div class="provider">
      <Problem error={data.failure === null ? null : new ApiError(0, "sign_in", data.failure)} />
      {data.oidc !== null && (
        <>
          <ProviderButton name={data.oidc} />
          <p class="or muted small">or</p>
        </>
      )}
    </div>
  );
}
