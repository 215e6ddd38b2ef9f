// The frame around the pages: who is signed in, where one can go, and the page of the address.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { loadSession, session, signOut } from "./lib/api";
import { asError } from "./lib/load";
import { isMember, may, nameOf, ROLES } from "./lib/permission";
import { comeBack } from "./lib/provider";
import { go, href, path } from "./lib/route";
import { theme, type Theme } from "./lib/theme";
import type { SessionView } from "./lib/types";
import { Invitation } from "./pages/invitation";
import { OneRequest } from "./pages/request";
import { SignIn } from "./pages/signin";
import { maySee, PLACES } from "./places";
import { Empty, Page, Problem, Select, Waiting } from "./ui/parts";
import type { ApiError } from "./lib/api";

export function App() {
  const [error, setError] = useState<ApiError | null>(null);
  const load = () => {
    setError(null);
    loadSession().catch((reason: unknown) => setError(asError(reason)));
  };
  useEffect(load, []);
  if (error) return <Problem error={error} onRetry={load} />;
  if (session.value === undefined) return <Waiting />;
  if (path.value === "/invitation") return <Invitation />;
  if (session.value === null) return <SignIn />;
  return <Frame who={session.value} />;
}

function Frame(props: { who: SessionView }) {
  const { who } = props;
  const here = path.value;
  const [isOpen, setIsOpen] = useState(false); // the menu of a narrow screen, where it is one row otherwise
  useEffect(() => setIsOpen(false), [here]);
  useEffect(comeBack, []);
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
          {PLACES.filter(maySee).map((place) => (
            <li key={place.to}>
              <a href={href(place.to)} aria-current={isWithin(here, place.to) ? "page" : undefined}>
                {place.name}
              </a>
            </li>
          ))}
        </ul>
        <div class="side-foot">
          {(may("requests.read") || isMember()) && <FindById />}
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
          <p class="muted small" title={who.actor}>
            <bdi class="clipped block">{nameOf(who)}</bdi>
            {ROLES[who.role]} · {who.version}
          </p>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <Content here={here} who={who} />
      </main>
    </div>
  );
}

function isWithin(here: string, to: string): boolean {
  return to === "/" ? here === "/" : here === to || here.startsWith(`${to}/`);
}

function Content(props: { here: string; who: SessionView }) {
  const parts = props.here.split("/");
  const id = parts[1] === "requests" ? parts[2] : undefined;
  const place = PLACES.find((each) => each.to === (id ? "/requests" : props.here));
  const start = PLACES.find(maySee)?.to ?? "/";
  const isAway = place?.to === "/" && start !== "/"; // one who has no overview begins elsewhere
  useEffect(() => {
    if (isAway) go(start, {}, { replace: true });
  }, [isAway]);
  if (isAway) return <Waiting />;
  const back = <a href={href(start)}>Go to the first page</a>;
  if (!place) return <Nothing title="Page not found" about="This page does not exist." action={back} />;
  if (!maySee(place)) {
    return (
      <Nothing title={place.name} about="You may not see this page." action={back}>
        You are signed in as <bdi>{nameOf(props.who)}</bdi>, with the role {ROLES[props.who.role]}. {place.isOfPerson ? "Only people who sign in by name have an account." : "An owner can give you another role."}
      </Nothing>
    );
  }
  return id ? <OneRequest id={decoded(id)} /> : <place.page key={place.to} />;
}

function Nothing(props: { title: string; about: string; action: ComponentChildren; children?: ComponentChildren }) {
  return (
    <Page title={props.title}>
      <Empty title={props.about} action={props.action}>
        {props.children}
      </Empty>
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
