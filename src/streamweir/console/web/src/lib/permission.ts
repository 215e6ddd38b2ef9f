// What the session may do, by the server's table. The server decides: a page only leaves out what would be refused.
import { session } from "./api";
import type { Permission, Role, SessionView } from "./types";

export const ROLES: Record<Role, string> = {
  owner: "Owner",
  operator: "Operator",
  billing: "Billing",
  viewer: "Viewer",
  admin: "Workspace admin",
  member: "Member",
  key: "Workspace admin",
  metrics: "Metrics", // it cannot sign in
};

export function may(permission: Permission): boolean {
  return session.value?.permissions.includes(permission) ?? false;
}

// A member of a workspace sees what is its own, on the pages where others see what is everybody's.
export function isMember(): boolean {
  return may("self") && !may("requests.read");
}

export function mayCreateKeys(): boolean {
  return may("keys.change") || isMember();
}

// Where the API has it.
export function scoped(path: string): string {
  return `/api${isMember() ? "/me" : ""}${path}`;
}

// All workspaces, and not its own alone.
export function seesAll(): boolean {
  return session.value?.workspace === null;
}

// As whom one is signed in: the name of a person, or what was signed in with.
export function nameOf(who: SessionView): string {
  return who.person === null ? (who.role === "key" ? "Key" : "Admin secret") : who.actor.replace("person:", "");
}
