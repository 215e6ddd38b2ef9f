// The pages of the menu, and the permission that each needs. Whoever has it not is not shown the page.
import type { FunctionComponent } from "preact";
import { session } from "./lib/api";
import { isMember, may } from "./lib/permission";
import type { Permission } from "./lib/types";
import { Account } from "./pages/account";
import { Audit } from "./pages/audit";
import { Keys } from "./pages/keys";
import { Live } from "./pages/live";
import { Models } from "./pages/models";
import { Overview } from "./pages/overview";
import { People } from "./pages/people";
import { Playground } from "./pages/playground";
import { Requests } from "./pages/requests";
import { Settings } from "./pages/settings";
import { Workspaces } from "./pages/workspaces";

interface Place {
  to: string;
  name: string;
  page: FunctionComponent;
  needs: Permission;
  isOwn?: boolean; // members have one of what is their own
  isOfPerson?: boolean; // the admin secret and keys have none
}

export function maySee(place: Place): boolean {
  if (place.isOfPerson && session.value?.person === null) return false;
  return may(place.needs) || (place.isOwn === true && isMember());
}

// The first that one may see is where one begins.
export const PLACES: readonly Place[] = [
  { to: "/", name: "Overview", page: Overview, needs: "usage.read", isOwn: true },
  { to: "/live", name: "Live", page: Live, needs: "live.follow" },
  { to: "/requests", name: "Requests", page: Requests, needs: "requests.read", isOwn: true },
  { to: "/playground", name: "Playground", page: Playground, needs: "playground" },
  { to: "/keys", name: "Keys", page: Keys, needs: "keys.read", isOwn: true },
  { to: "/workspaces", name: "Workspaces", page: Workspaces, needs: "credit.read" },
  { to: "/models", name: "Models", page: Models, needs: "routing.read" },
  { to: "/audit", name: "Audit", page: Audit, needs: "audit.read" },
  { to: "/settings", name: "Settings", page: Settings, needs: "settings.read" },
  { to: "/people", name: "People", page: People, needs: "people.read" },
  { to: "/account", name: "Account", page: Account, needs: "self", isOfPerson: true },
];
