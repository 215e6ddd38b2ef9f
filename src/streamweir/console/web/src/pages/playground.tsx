// A model tried by hand: the same way through the gateway as for every caller, billed to the key that is chosen. Key,
// models and APIs are in the address; what is typed is kept while the console is open, and nowhere else.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, post, session, type ApiError } from "../lib/api";
import { isChat, MESSAGES, nameOfApi } from "../lib/apis";
import { bodyOf, continued, mayUse, NEW_DRAFT, type Draft } from "../lib/draft";
import { dollars } from "../lib/format";
import { takeHanded } from "../lib/handover";
import { asError, useLoad } from "../lib/load";
import { NEW_PLAYGROUND_KEY, PLAYGROUND_KEY, usualKey } from "../lib/playkey";
import { go, href, query } from "../lib/route";
import type { PlaygroundView } from "../lib/types";
import { Button, Empty, Field, Page, Panel, Problem, Select, Waiting } from "../ui/parts";
import { useWorkspaces } from "../ui/workspaces";
import { AnswerView } from "./playground/answer";
import { Folds, Turns } from "./playground/conversation";
import { RawFrames } from "./playground/frames";
import { ImageList, ImagePicker } from "./playground/images";
import { useRun, type Running } from "./playground/run";

const CHOOSE = "Choose a key";
const FIRST_PROMPT = "What is a river?"; // as the lines of the start have it: the embedded model is small

export function Playground() {
  const loaded = useLoad((abort) => get<PlaygroundView>("/api/playground", {}, abort), []);
  const choices = loaded.data;
  return (
    <Page title="Playground">
      <Problem error={loaded.error} onRetry={loaded.reload} />
      {!choices ? (
        loaded.isLoading && <Waiting />
      ) : !choices.keys.length ? (
        <Panel>
          <Empty title="No key available" action={<OwnKey onMade={loaded.reload} />}>
            A request from here uses a key, with its limits, and is billed to it. The key needs the scope “chat”.
          </Empty>
        </Panel>
      ) : !choices.models.length && choices.default_model === null ? (
        <Panel>
          <Empty title="No model available" action={<a href={href("/models")}>Models and providers</a>}>
            Add a provider to the configuration file (<code>[[providers]]</code>, with its key) and restart the gateway.
          </Empty>
        </Panel>
      ) : (
        <Bench choices={choices} onKeyMade={loaded.reload} />
      )}
    </Page>
  );
}

// A link of this console may send at once. One from elsewhere may not spend anybody's money: it fills in the form.
let wasLoadedToRun = new URLSearchParams(location.search).has("run");

// Of whoever is signed in: another session begins with nothing.
let kept: { owner: string | null | undefined; draft: Draft } | null = null;

function useDraft(): [Draft, (change: Partial<Draft>) => void] {
  const owner = session.value?.csrf;
  const [draft, setDraft] = useState<Draft>(() => {
    const handed = takeHanded();
    if (handed) return { ...NEW_DRAFT, ...handed };
    const before = kept?.owner === owner ? kept?.draft : null;
    const prompt = query.value.get("prompt");
    return { ...(before ?? NEW_DRAFT), ...(prompt ? { prompt } : {}) };
  });
  useEffect(() => {
    kept = { owner, draft };
  }, [owner, draft]);
  return [draft, (change) => setDraft((before) => ({ ...before, ...change }))];
}

interface Side {
  model: string;
  dialect: string;
}

// What is asked of whom, by the address. The second is another model, where there is one.
function sidesOf(asked: URLSearchParams, choices: PlaygroundView): [Side, Side] {
  const model = asked.get("model") ?? choices.default_model ?? choices.models[0] ?? "";
  const other = asked.get("model2") ?? choices.models.find((each) => each !== model) ?? model;
  return [
    { model, dialect: asked.get("dialect") ?? "" },
    { model: other, dialect: asked.get("dialect2") ?? "" },
  ];
}

// Makes a key for the playground. Its secret is not needed: the console's session is the right to use it.
function OwnKey(props: { onMade: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const make = async () => {
    setIsBusy(true);
    try {
      await makeKey();
      props.onMade();
      return;
    } catch (reason) {
      setError(asError(reason));
    }
    setIsBusy(false);
  };
  return (
    <>
      <Button small disabled={isBusy} title={`A key named “${PLAYGROUND_KEY}” that may spend ${dollars(NEW_PLAYGROUND_KEY.budget_usd)} a day`} onClick={make}>
        Create a key for the playground
      </Button>
      <Problem error={error} />
    </>
  );
}

// Several workers that share no limits cannot keep a budget: then it has none.
async function makeKey(): Promise<void> {
  try {
    await post("/api/keys", NEW_PLAYGROUND_KEY);
  } catch (reason) {
    const { name, scopes } = NEW_PLAYGROUND_KEY;
    if (asError(reason).param !== "budget_usd") throw reason;
    await post("/api/keys", { name, scopes });
  }
}

function Bench(props: { choices: PlaygroundView; onKeyMade: () => void }) {
  const { choices } = props;
  const { nameOf } = useWorkspaces();
  const asked = query.value;
  const [draft, change] = useDraft();
  const [hasTried, setHasTried] = useState(false);
  const isOtherKey = asked.has("key") && !choices.keys.some((each) => each.id === asked.get("key"));
  const key = choices.keys.find((each) => each.id === asked.get("key")) ?? (isOtherKey ? null : usualKey(choices.keys));
  const isComparing = asked.has("compare");
  const sides = sidesOf(asked, choices);
  const runs: [Running, Running] = [useRun(), useRun()];
  const shown = isComparing ? ([0, 1] as const) : ([0] as const);
  const isBusy = shown.some((place) => isRunning(runs[place]));
  const apis = shown.map((place) => sides[place].dialect);
  const strictest = apis.some(isChat) ? "" : MESSAGES; // chat completions have every field
  const { problems } = useMemo(() => bodyOf(draft, "", strictest), [draft, strictest]);
  const form = useRef<HTMLFormElement>(null);

  const choose = (more: Record<string, string | null>) => {
    const now = { key: key?.id, model: sides[0].model, dialect: sides[0].dialect, compare: asked.get("compare"), model2: asked.get("model2"), dialect2: asked.get("dialect2") };
    go("/playground", { ...now, ...more }, { replace: true });
  };
  const send = (what: Draft) => {
    setHasTried(true);
    if (!key) form.current?.querySelector("select")?.focus();
    if (!key || isBusy || Object.keys(bodyOf(what, "", strictest).problems).length) return;
    const now = sidesOf(query.value, choices); // a model may have been typed since this was drawn
    for (const place of shown) {
      const { model, dialect } = now[place];
      runs[place].start({ key: key.id, ...(dialect ? { dialect } : {}), body: bodyOf(what, model, dialect).body });
    }
    setHasTried(false);
  };
  useEffect(() => {
    if (asked.get("run") !== "1") return;
    const first = { ...draft, prompt: draft.prompt.trim() ? draft.prompt : FIRST_PROMPT };
    const maySend = !wasLoadedToRun;
    wasLoadedToRun = false;
    change(first);
    choose({});
    if (maySend) send(first);
  }, []);
  const goOn = (place: 0 | 1, after: Draft) => {
    change(after);
    for (const each of runs) each.reset();
    if (isComparing) choose({ model: sides[place].model, dialect: sides[place].dialect });
    form.current?.querySelector<HTMLTextAreaElement>("#prompt")?.focus();
  };
  return (
    <>
      <form
        ref={form}
        class="panel ask"
        aria-label="Request"
        onSubmit={(event) => {
          event.preventDefault();
          send(draft);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          (event.target as HTMLElement).blur(); // a model that was typed is taken then
          form.current?.requestSubmit();
          (event.target as HTMLElement).focus();
        }}
      >
        <div class="ask-head">
          <Field
            label="Key"
            hint={
              key ? (
                key.log_content ? "Billed to this key, which stores prompts and answers." : "Billed to this key."
              ) : (
                <>
                  {isOtherKey && <div class="bad">The requested key cannot be used.</div>}
                  {hasTried && <div class="bad">{CHOOSE}.</div>}
                  <OwnKey onMade={props.onKeyMade} />
                </>
              )
            }
          >
            {(id, hintId) => (
              <select id={id} aria-describedby={hintId} aria-invalid={hasTried && !key} value={key?.id ?? ""} onChange={(event) => choose({ key: event.currentTarget.value })}>
                {!key && <option value="">{CHOOSE}</option>}
                {choices.keys.map((each) => (
                  <option key={each.id} value={each.id}>
                    {each.name} ({nameOf(each.workspace)})
                  </option>
                ))}
              </select>
            )}
          </Field>
          {shown.map((place) => (
            <SideFields
              key={place}
              place={place}
              isAlone={!isComparing}
              side={sides[place]}
              choices={choices}
              models={key?.models ?? null}
              usualDialect={key?.dialect ?? null}
              onChange={(side) => choose(place === 0 ? { ...side } : { model2: side.model, dialect2: side.dialect })}
            />
          ))}
        </div>
        <div class="ask-body">
          <Turns draft={draft} problems={problems} onChange={change} />
          <label class="visually-hidden" for="prompt">
            Prompt
          </label>
          <textarea
            id="prompt"
            rows={3}
            dir="auto"
            placeholder="Ask something"
            aria-invalid={hasTried && Boolean(problems.prompt)}
            value={draft.prompt}
            onInput={(event) => change({ prompt: event.currentTarget.value })}
          />
          <ImageList images={draft.images} onChange={(images) => change({ images })} />
          <div class="spread">
            <div class="row">
              {isBusy ? (
                // A button of its own: were it the one that sends, a click that stops would send again.
                <Button key="stop" tone="bad" onClick={() => runs.forEach((each) => each.stop())}>
                  Stop
                </Button>
              ) : (
                <Button key="send" type="submit" tone="accent">
                  Send
                </Button>
              )}
              <span class={hasTried && problems.prompt ? "small bad" : "small muted"} role="status">
                {hasTried && problems.prompt ? problems.prompt : "Ctrl + Enter"}
              </span>
            </div>
            <div class="row">
              <ImagePicker images={draft.images} onChange={(images) => change({ images })} />
              <Button small tone="quiet" onClick={() => change({ turns: [...draft.turns, { role: draft.turns.length % 2 ? "assistant" : "user", text: "" }] })}>
                Add a turn
              </Button>
              {draft.turns.length > 0 && (
                <Button small tone="quiet" onClick={() => change({ turns: [] })}>
                  Start over
                </Button>
              )}
              <Button small tone="quiet" disabled={isBusy} onClick={() => choose({ compare: isComparing ? null : "1" })}>
                {isComparing ? "One model" : "Compare two models"}
              </Button>
            </div>
          </div>
          <Folds draft={draft} problems={problems} apis={apis} onChange={change} />
        </div>
      </form>
      <div class="bench">
        {shown.map((place) => (
          <Panel key={place} title={isComparing ? titleOf(sides, place) : "Answer"}>
            <AnswerView run={runs[place].run} onContinue={(choice) => goOn(place, continued(draft, choice))} />
            {isComparing && (
              <details class="fold" open>
                <summary>Raw frames</summary>
                <RawFrames run={runs[place].run} label={`Raw frames of answer ${place + 1}`} />
              </details>
            )}
          </Panel>
        ))}
        {!isComparing && (
          <Panel title="Raw frames">
            <RawFrames run={runs[0].run} label="Raw frames" />
          </Panel>
        )}
      </div>
    </>
  );
}

// Where the two are asked in different ways, these are named too.
function titleOf(sides: [Side, Side], place: 0 | 1): string {
  const { model, dialect } = sides[place];
  if (sides[0].dialect === sides[1].dialect) return model;
  return `${model}, ${dialect ? nameOfApi(dialect) : "Chat completions"}`;
}

function isRunning(running: Running): boolean {
  return running.run.phase === "sending" || running.run.phase === "streaming";
}

function SideFields(props: {
  place: number;
  isAlone: boolean;
  side: Side;
  choices: PlaygroundView;
  models: string[] | null; // of the key
  usualDialect: string | null;
  onChange: (side: Side) => void;
}) {
  const { side, choices, place } = props;
  const list = `models-${place}`;
  const suffix = props.isAlone ? "" : ` ${place + 1}`;
  const fits = useMemo(() => choices.models.filter((each) => mayUse(props.models, each)), [choices, props.models]);
  const [typed, setTyped] = useState(side.model);
  useLayoutEffect(() => setTyped(side.model), [side.model]); // before anybody types
  const isOut = side.model !== "" && !mayUse(props.models, side.model);
  const usual = props.usualDialect === null ? "Chat completions" : `Chat completions (${props.usualDialect}, from the key)`;
  const apis = [["", usual] as const, ...choices.dialects.map((each) => [each, nameOfApi(each)] as const)];
  return (
    <>
      <Field label={`Model${suffix}`} hint={isOut ? "This key may not use it." : ""}>
        {(id, hintId) => (
          <>
            <input
              id={id}
              aria-describedby={hintId}
              class="mono"
              list={list}
              spellcheck={false}
              autocomplete="off"
              value={typed}
              placeholder={choices.default_model ?? "model"}
              onInput={(event) => setTyped(event.currentTarget.value)}
              onChange={(event) => props.onChange({ ...side, model: event.currentTarget.value.trim() })}
            />
            <datalist id={list}>
              {fits.map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label={`API${suffix}`}>
        {(id) => <Select<string> id={id} value={side.dialect} options={apis} onChange={(dialect) => props.onChange({ ...side, dialect })} />}
      </Field>
    </>
  );
}
