// What is asked: the turns so far, the prompt, and folded below it the system message, parameters and tools.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { isChat, MESSAGES, nameOfApi, RESPONSES } from "../../lib/apis";
import { EXAMPLE_TOOLS, type Draft, type Problems, type Turn } from "../../lib/draft";
import { USUAL_MAX_TOKENS } from "../../lib/messages";
import { Button, Field, Select } from "../../ui/parts";
import { ImageList } from "./images";

interface Props {
  draft: Draft;
  apis?: string[]; // that are asked
  problems: Problems;
  onChange: (change: Partial<Draft>) => void;
}

export function Turns(props: Props) {
  const { turns } = props.draft;
  if (!turns.length) return null;
  const change = (place: number, turn: Turn) => props.onChange({ turns: turns.map((each, at) => (at === place ? turn : each)) });
  const drop = (place: number) => props.onChange({ turns: turns.filter((_, at) => at !== place) });
  return (
    <ol class="turns">
      {turns.map((turn, place) => (
        <li key={place}>
          {turn.role === "tool" || turn.calls ? (
            <span class="small muted">{turn.role}</span>
          ) : (
            <Select<"user" | "assistant">
              label={`Role of turn ${place + 1}`}
              value={turn.role}
              options={[
                ["user", "user"],
                ["assistant", "assistant"],
              ]}
              onChange={(role) => change(place, { ...turn, role })}
            />
          )}
          <div class="turn-text">
            {turn.calls?.map((call) => (
              <pre key={call.id}>
                {call.name}({call.arguments})
              </pre>
            ))}
            <ImageList images={turn.images ?? []} onChange={(images) => change(place, { ...turn, images })} />
            {(!turn.calls || turn.text) && (
              <textarea
                aria-label={turn.callId ? `Tool result for ${turn.callId}` : `Turn ${place + 1}`}
                rows={Math.min(6, Math.max(1, turn.text.split("\n").length))}
                dir="auto"
                placeholder={turn.callId ? `Tool result for ${turn.callId}` : ""}
                value={turn.text}
                onInput={(event) => change(place, { ...turn, text: event.currentTarget.value })}
              />
            )}
          </div>
          <Button small tone="quiet" aria-label={`Remove turn ${place + 1}`} onClick={() => drop(place)}>
            Remove
          </Button>
        </li>
      ))}
    </ol>
  );
}

export function Folds(props: Props) {
  const { draft, problems, onChange } = props;
  const parameters = [draft.temperature, draft.maxTokens, draft.topP, draft.seed, draft.stop, draft.effort].filter((each) => each.trim()).length;
  const isOdd = problems.temperature ?? problems.maxTokens ?? problems.topP ?? problems.seed;
  return (
    <div class="folds">
      <Fold summary="System message" opens={draft.system !== ""}>
        <textarea
          aria-label="System message"
          rows={3}
          dir="auto"
          value={draft.system}
          placeholder="How the model should behave"
          onInput={(event) => onChange({ system: event.currentTarget.value })}
        />
      </Fold>
      <Fold summary="Parameters" more={[parameters ? `${parameters} set` : "", draft.isStreamed ? "" : "not streamed"].filter(Boolean).join(", ")} opens={Boolean(isOdd)}>
        <Parameters {...props} />
      </Fold>
      <Fold summary="Tools" more={draft.tools.trim() ? (problems.tools ? "invalid" : "set") : ""} opens={Boolean(problems.tools)}>
        <Field label="Tools, as JSON" error={problems.tools ?? null} hint="The functions that the model can call, in the format of any API. A call is shown but not executed; with Continue you can enter its result.">
          {(id, hintId) => (
            <textarea
              id={id}
              aria-describedby={hintId}
              aria-invalid={Boolean(problems.tools)}
              class="mono"
              rows={8}
              spellcheck={false}
              value={draft.tools}
              onInput={(event) => onChange({ tools: event.currentTarget.value })}
            />
          )}
        </Field>
        <div class="row">
          <Button small onClick={() => onChange({ tools: EXAMPLE_TOOLS })}>
            Insert an example
          </Button>
          {draft.tools && (
            <Button small tone="quiet" onClick={() => onChange({ tools: "" })}>
              Clear
            </Button>
          )}
        </div>
      </Fold>
    </div>
  );
}

// Opens by itself where something needs to be seen, and never closes by itself.
function Fold(props: { summary: string; more?: string; opens: boolean; children: ComponentChildren }) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (props.opens && box.current) box.current.open = true;
  }, [props.opens]);
  return (
    <details ref={box} class="fold">
      <summary>
        {props.summary} <span class="muted">{props.more}</span>
      </summary>
      {props.children}
    </details>
  );
}

const EFFORTS = [
  ["", "default"],
  ["none", "none"],
  ["minimal", "minimal"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
] as const;

function Parameters({ draft, problems, apis = [""], onChange }: Props) {
  const isMessages = apis.includes(MESSAGES);
  const isResponses = apis.includes(RESPONSES);
  const hasChat = apis.some(isChat);
  const each = (chat: string, messages: string, responses: string) =>
    [...new Set([hasChat && chat, isMessages && messages, isResponses && responses])].filter(Boolean).join(", ");
  // Where it is sent to one API of two.
  const notIn = (lacking: string[]) => lacking.map((api) => `, not in ${nameOfApi(api)}`).join("");
  const maxTokens = each("max_tokens", "max_tokens", "max_output_tokens");
  const usual = isMessages ? `; ${USUAL_MAX_TOKENS}${hasChat || isResponses ? " in Messages" : ""} if empty` : "";
  const number = (name: "temperature" | "maxTokens" | "topP" | "seed", label: string, hint: string) => (
    <Field label={label} hint={hint} error={problems[name] ?? null}>
      {(id, hintId) => (
        <input
          id={id}
          aria-describedby={hintId}
          aria-invalid={Boolean(problems[name])}
          class="mono"
          inputMode="decimal"
          autocomplete="off"
          value={draft[name]}
          onInput={(event) => onChange({ [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  return (
    <div class="form">
      <div class="form-grid">
        {number("temperature", "Temperature", isMessages ? "0 to 1" : "0 to 2")}
        {number("maxTokens", "Max tokens", maxTokens + usual)}
        {number("topP", "Top p", "0 to 1")}
        {hasChat && number("seed", "Seed", `a whole number${notIn(apis.filter((api) => !isChat(api)))}`)}
        <Field label="Reasoning effort" hint={each("reasoning_effort", "thinking and output_config.effort", "reasoning.effort")}>
          {(id) => <Select<string> id={id} value={draft.effort} options={EFFORTS} onChange={(effort) => onChange({ effort })} />}
        </Field>
        {(hasChat || isMessages) && (
          <Field label="Stop sequences" hint={`one sequence per line${notIn(isResponses ? [RESPONSES] : [])}`}>
            {(id, hintId) => (
              <textarea id={id} aria-describedby={hintId} class="mono" rows={1} value={draft.stop} onInput={(event) => onChange({ stop: event.currentTarget.value })} />
            )}
          </Field>
        )}
      </div>
      <div class="row">
        <label class="check">
          <input type="checkbox" checked={draft.isStreamed} onChange={(event) => onChange({ isStreamed: event.currentTarget.checked })} />
          Stream the answer
        </label>
        {hasChat && (
          <label class="check">
            <input type="checkbox" checked={draft.hasUsage} disabled={!draft.isStreamed} onChange={(event) => onChange({ hasUsage: event.currentTarget.checked })} />
            Request usage in the stream
          </label>
        )}
      </div>
    </div>
  );
}
