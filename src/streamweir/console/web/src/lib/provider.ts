// Signing in at the identity provider. The browser leaves the console and comes back to its first page: the tab remembers
// meanwhile where one was, and the fragment of the address says which failure it was, if it was one.
import { signal } from "@preact/signals";
import { post } from "./api";
import { go, path, query } from "./route";
import type { SignInAddress } from "./types";

const PLACE = "streamweir-place";

// The name of the failure. The server has the sentence for it.
export const failure = signal(/^#sign-in=(\w{1,64})$/.exec(location.hash)?.[1] ?? null);
if (failure.value !== null) history.replaceState(null, "", location.pathname + location.search);

export async function leave(): Promise<void> {
  const { url } = await post<SignInAddress>("/api/oidc");
  const search = query.value.toString();
  sessionStorage.setItem(PLACE, path.value + (search && `?${search}`));
  location.assign(url);
}

// Once, when somebody has signed in.
export function comeBack(): void {
  failure.value = null;
  const [to = "/", search = ""] = (sessionStorage.getItem(PLACE) ?? "").split("?");
  sessionStorage.removeItem(PLACE);
  if (to.startsWith("/") && to !== "/invitation" && path.value === "/") go(to, Object.fromEntries(new URLSearchParams(search)), { replace: true });
}
