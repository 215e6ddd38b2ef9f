// Where one is: a path below /console and its query. Filters live in the query, so that every view has an address.
import { computed, signal } from "@preact/signals";
import { withQuery, type Query } from "./api";

const BASE = "/console";

const here = signal(location.pathname + location.search);

export const path = computed(() => {
  const pathname = new URL(here.value, location.origin).pathname;
  return pathname.startsWith(BASE) ? pathname.slice(BASE.length) || "/" : "/";
});

export const query = computed(() => new URL(here.value, location.origin).searchParams);

export function href(to: string, query: Query = {}): string {
  return withQuery(BASE + (to === "/" ? "" : to), query);
}

export function go(to: string, query: Query = {}, options: { replace?: boolean } = {}): void {
  const address = href(to, query);
  if (options.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  const moves = new URL(address, location.origin).pathname !== new URL(here.value, location.origin).pathname;
  here.value = address;
  if (moves) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

// Links within the console are plain links; this makes them fast, and leaves new tabs and downloads alone.
export function listen(): void {
  addEventListener("popstate", () => (here.value = location.pathname + location.search));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
    if (link.hash && link.pathname === location.pathname) return; // to a part of this page
    event.preventDefault();
    const to = link.pathname.slice(BASE.length) || "/";
    go(to, Object.fromEntries(new URLSearchParams(link.search)));
  });
}
