// What each provider answered: its status and error in its own words, its own id of the request, and the connection.
import { attemptTexts, hasAnswer } from "../../lib/attempts";
import type { RequestDetail } from "../../lib/types";
import { CopyableId, Facts, Panel } from "../../ui/parts";

export function Attempts(props: { row: RequestDetail }) {
  const { attempts } = props.row;
  if (!attempts.some(hasAnswer)) return null;
  const texts = attemptTexts(attempts);
  return (
    <Panel title={attempts.length > 1 ? "Attempts" : "Attempt"} class="one-facts">
      <ol class="attempts">
        {attempts.map((attempt, index) => {
          const text = texts[index];
          return (
            text && (
              <li key={index}>
                <h3 class="row">
                  {attempts.length > 1 && <span class="muted">{index + 1}</span>}
                  <bdi class="break">{attempt.target}</bdi>
                  {attempt.error ? <code class="bad">{attempt.error}</code> : <span class="good">answered</span>}
                </h3>
                {text.message && <p class="attempt-message break"><bdi>{text.message}</bdi></p>}
                <Facts
                  rows={[
                    attempt.credential === undefined ? null : ["Credential", <bdi>{attempt.credential}</bdi>],
                    fact("Provider's answer", text.answer),
                    fact("Error details", text.about),
                    text.requestId ? ["Provider's request id", <CopyableId id={text.requestId} />] : null,
                    fact("Address", text.address),
                    fact("Connection", text.connection),
                    fact("First byte", text.firstByte),
                  ]}
                />
              </li>
            )
          );
        })}
      </ol>
    </Panel>
  );
}

function fact(name: string, text: string): [string, preact.JSX.Element] | null {
  return text ? [name, <bdi>{text}</bdi>] : null;
}
