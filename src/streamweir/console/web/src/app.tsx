// The frame around the pages: who is signed in, where one can go, and the page of the address.
import type { FunctionComponent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { loadSession, session, signOut } from "./lib/api";
import { asError } from "./lib/load";
import { go, href, path } from "./lib/route";
import { theme, type Theme } from "./lib/theme";
import { Audit } from "./pages/audit";
import { Keys } from "./pages/keys";
import { Live } from "./pages/live";
import { Models } from "./pages/models";
import { Overview } from "./pages/overview";
import { Playground } from "./pages/playground";
import { OneRequest } from "./pages/request";
import { Requests } from "./pages/requests";
import { Settings } from "./pages/settings";
import { SignIn } from "./pages/signin";
import { Workspaces } from "./pages/workspaces";
import { Empty, Page, Problem, Select, Waiting } from "./ui/parts";
import type { ApiError } from "./lib/api";

interface Place {
  to: string;
  name: string;
  page: FunctionComponent;
  isOperators?: boolean;
}

const PLACES: readonly Place[] = [
  { to: "/", name: "Overview", page: Overview },
  { to: "/live", name: "Live", page: Live },
  { to: "/requests", name: "Requests", page: Requests },
  { to: "/playground", name: "Playground", page: Playground },
  { to: "/keys", name: "Keys", page: Keys },
  { to: "/workspaces", name: "Workspaces", page: Workspaces },
  { to: "/models", name: "Models", page: Models },
  { to: "/audit", name: "Audit", page: Audit },
  { to: "/settings", name: "Settings", page: Settings, isOperators: true },
];

export function App() {
  const [error, setError] = useState<ApiError | null>(null);
  const load = () => {
    setError(null);
    loadSession().catch((reason: unknown) => setError(asError(reason)));
  };
  useEffect(load, []);
  if (error) return <Problem error={error} onRetry={load} />;
  if (session.value === undefined) return <Waiting />;
  if (session.value === null) return <SignIn />;
  return <Frame />;
}

function Frame() {
  const who = session.value;
  const places = PLACES.filter((place) => !place.isOperators || who?.is_operator);
  const here = path.value;
  const [isOpen, setIsOpen] = useState(false); // the menu of a narrow screen, where it is one row otherwise
  useEffect(() => setIsOpen(false), [here]);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <nav class={`side ${isOpen ? "is-open" : ""}`} aria-label="Pages" onKeyDown={(event) => event.key === "Escape" && setIsOpen(false)}>
        <a class="brand" href={href("/")}>
          <span class="brand-mark" aria-hidden="true" />
          <span class="brand-name">Streamweir</span>
        </a>
        <button type="button" class="button quiet menu" aria-expanded={isOpen} aria-controls="pages" onClick={() => setIsOpen(!isOpen)}>
          Menu
        </button>
        <ul id="pages">
          {places.map((place) => (
            <li key={place.to}>
              <a href={href(place.to)} aria-current={isWithin(here, place.to) ? "page" : undefined}>
                {place.name}
              </a>
            </li>
          ))}
        </ul>
        <div class="side-foot">
          <FindById />
          <div class="side-row">
            <Select<Theme>
              label="Theme"
              value={theme.value}
              options={[
                ["system", "System"],
                ["light", "Light"],
                ["dark", "Dark"],
              ]}
              onChange={(chosen) => (theme.value = chosen)}
            />
            <button type="button" class="button quiet small" onClick={() => void signOut()}>
              Sign out
            </button>
          </div>
          <p class="muted small" title={who?.actor}>
            {who?.is_operator ? "Operator" : "Workspace admin"} · {who?.version}
          </p>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <Content here={here} places={places} />
      </main>
    </div>
  );
}

function isWithin(here: string, to: string): boolean {
  return to === "/" ? here === "/" : here === to || here.startsWith(`${to}/`);
}

function Content(props: { here: string; places: readonly Place[] }) {
  const parts = props.here.split("/");
  if (parts[1] === "requests" && parts[2]) return <OneRequest id={decoded(parts[2])} />;
  const place = props.places.find((each) => each.to === props.here);
  if (place) return <place.page key={place.to} />;
  return (
    <Page title="Page not found">
      <Empty title="This page does not exist." action={<a href={href("/")}>Go to the overview</a>} />
    </Page>
  );
}

// An address that somebody has mangled is an id that nobody has.
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// `/` leads here from anywhere: an id from a chunk, a header or a log finds its request.
function FindById() {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || target.closest("input, textarea, select, [contenteditable], dialog")) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  const find = (event: Event) => {
    event.preventDefault();
    const id = input.current?.value.trim();
    if (!id || !input.current) return;
    input.current.value = "";
    go("/requests", { id });
  };
  return (
    <form role="search" aria-label="Requests" onSubmit={find}>
      <input ref={input} type="search" aria-label="Find a request by id" placeholder="Find by id  ( / )" spellcheck={false} autocomplete="off" />
    </form>
  );
}
