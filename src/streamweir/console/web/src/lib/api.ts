// The one way to the server: the session's cookie goes along by itself, the token against foreign pages is added to
// whatever changes something. A session that has ended leads to the sign-in page, wherever one is.
import { signal } from "@preact/signals";
import type { SessionView as Session } from "./types";

export const session = signal<Session | null | undefined>(undefined);
// undefined: not asked yet. null: nobody is signed in.
export const hasEnded = signal(false); // the session, without having been asked to

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function withQuery(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

export function get<T>(path: string, query: Query = {}, abort?: AbortSignal): Promise<T> {
  return ask<T>("GET", withQuery(path, query), undefined, abort);
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return ask<T>("POST", path, body);
}

export function patch<T>(path: string, body: unknown): Promise<T> {
  return ask<T>("PATCH", path, body);
}

export function remove<T>(path: string): Promise<T> {
  return ask<T>("DELETE", path);
}

async function ask<T>(method: string, path: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, abort);
  if (response.status === 403) loadSession().catch(() => undefined); // another role since: the pages follow
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}

// Where 401 need not mean the session: a wrong secret or password, or a key of the playground that is no longer good.
const OWN_401: readonly string[] = ["/api/session", "/api/login", "/api/invitation", "/api/invitation/show", "/api/me/password", "/api/playground/chat"];

// The answer as it comes, for what streams. Errors are the caller's to read.
export async function send(method: string, path: string, body?: unknown, abort?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const csrf = session.value?.csrf;
  if (method !== "GET" && csrf) headers["x-csrf-token"] = csrf;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store", redirect: "error" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (abort) init.signal = abort;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (reason) {
    if (abort?.aborted) throw reason;
    throw new ApiError(0, "unreachable", "The gateway does not answer. Is it running?");
  }
  if (response.status === 401 && !OWN_401.includes(path)) {
    hasEnded.value ||= Boolean(session.value);
    session.value = null;
  }
  return response;
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, String(error.code ?? error.type), String(error.message), error.param ?? null);
  } catch {
    return new ApiError(response.status, "unknown", `The gateway answered with ${response.status}.`);
  }
}

export async function loadSession(): Promise<void> {
  const response = await send("GET", "/api/session");
  hasEnded.value = !response.ok && Boolean(session.value);
  session.value = response.ok ? ((await response.json()) as Session) : null;
}

export function signIn(secret: string): Promise<void> {
  return logIn("/api/session", { secret });
}

// Every way in is answered with the new session.
export async function logIn(path: string, what: Record<string, string>): Promise<void> {
  session.value = await post<Session>(path, what);
  hasEnded.value = false;
}

export async function signOut(): Promise<void> {
  try {
    await remove("/api/session");
  } finally {
    session.value = null;
  }
}
