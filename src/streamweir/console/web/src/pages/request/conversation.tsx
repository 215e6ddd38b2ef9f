// A conversation to read: the messages of the prompt, then the answer. All of it is text; images are named, not loaded.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Answer } from "../../lib/chat";
import { readable, readConversation, type Call, type Message } from "../../lib/conversation";
import { plural } from "../../lib/format";
import type { ContentView as Content } from "../../lib/types";

export function ConversationView(props: { content: Content; answer: Answer | null }) {
  const { content } = props;
  const conversation = useMemo(() => readConversation(content.prompt), [content.prompt]);
  // Of frames that were cut the kept text may know more.
  const isFrames = props.answer !== null && !content.is_cut && (props.answer.choices.length > 0 || props.answer.fault !== null || props.answer.vectors !== undefined);
  return (
    <div class="said">
      {conversation === null ? (
        <Turn who="Prompt" about="not a readable chat request">
          <pre>{content.prompt}</pre>
        </Turn>
      ) : (
        <>
          {conversation.messages.map((message, index) => (
            <MessageTurn key={index} message={message} />
          ))}
          {(conversation.tools.length > 0 || conversation.others.length > 0) && (
            <details class="said-turn">
              <summary>
                Parameters
                {conversation.tools.length > 0 && ` and ${plural(conversation.tools.length, "tool")}`}
              </summary>
              <dl class="said-facts">
                {conversation.others.map(([name, text]) => (
                  <div key={name}>
                    <dt>{name}</dt>
                    <dd>
                      <pre>{text}</pre>
                    </dd>
                  </div>
                ))}
                {conversation.tools.map((tool, index) => (
                  <div key={`tool ${index}`}>
                    <dt>tool {tool.name}</dt>
                    <dd>
                      <pre>{tool.text}</pre>
                    </dd>
                  </div>
                ))}
              </dl>
            </details>
          )}
        </>
      )}
      {isFrames && props.answer ? (
        <AnswerTurns answer={props.answer} />
      ) : (
        <Turn who="Answer" isAnswer>
          {content.answer ? <p class="said-text">{content.answer}</p> : <p class="muted">{content.caller_frames.length ? "No text." : "No answer."}</p>}
        </Turn>
      )}
    </div>
  );
}

const FOLDED = new Set(["system", "developer", "instructions"]);

function MessageTurn(props: { message: Message }) {
  const { message } = props;
  const body = (
    <>
      {message.reasoning && <Reasoning text={message.reasoning} />}
      {message.parts.map((part, index) =>
        part.kind === "text" ? (
          <p key={index} class="said-text" dir="auto">
            {part.text}
          </p>
        ) : (
          <pre key={index} class="muted">
            {part.text}
          </pre>
        ),
      )}
      {message.calls.map((call, index) => (
        <CallView key={index} call={call} />
      ))}
    </>
  );
  if (FOLDED.has(message.role) || message.answers !== null) {
    const size = message.parts.reduce((sum, part) => sum + part.text.length, 0);
    return (
      <details class="said-turn">
        <summary>
          {message.role} {message.answers !== null && <code class="muted break">{[message.name, message.answers].filter(Boolean).join(" ")}</code>} <span class="muted">{plural(size, "character")}</span>
        </summary>
        {body}
      </details>
    );
  }
  return (
    <Turn who={message.role} about={message.name ?? ""}>
      {body}
    </Turn>
  );
}

// Also of an answer that is only half there.
export function AnswerTurns(props: { answer: Answer }) {
  const { choices, fault, vectors } = props.answer;
  return (
    <>
      {vectors && (
        <Turn who="Answer" isAnswer>
          <p>
            {plural(vectors.count, "vector")}
            {vectors.length !== null && ` of ${plural(vectors.length, "number")}`}
          </p>
        </Turn>
      )}
      {choices.map((choice) => (
        <Turn key={choice.index} who={choices.length > 1 ? `Answer ${choice.index + 1}` : "Answer"} about={choice.finish ?? ""} isAnswer>
          {choice.reasoning && <Reasoning text={choice.reasoning} />}
          {choice.text && (
            <p class="said-text" dir="auto">
              {choice.text}
            </p>
          )}
          {choice.refusal && (
            <p class="said-text" dir="auto">
              <strong>Refused: </strong>
              {choice.refusal}
            </p>
          )}
          {choice.calls.map((call, index) => (
            <CallView key={index} call={call} />
          ))}
          {choice.others?.map((other, index) => (
            <CallView key={index} call={other} word="Item" />
          ))}
        </Turn>
      ))}
      {fault && (
        <Turn who="Error" about={fault.code ?? fault.type ?? ""}>
          <p class="said-text bad">{fault.message}</p>
        </Turn>
      )}
    </>
  );
}

function Turn(props: { who: string; about?: string; isAnswer?: boolean; children: ComponentChildren }) {
  return (
    <section class={props.isAnswer ? "said-turn is-answer" : "said-turn"}>
      <h3>
        {props.who} {props.about && <span class="muted small">{props.about}</span>}
      </h3>
      {props.children}
    </section>
  );
}

function Reasoning(props: { text: string }) {
  return (
    <details class="said-reasoning">
      <summary class="muted">
        Reasoning, {plural(props.text.length, "character")}
      </summary>
      <p class="said-text" dir="auto">
        {props.text}
      </p>
    </details>
  );
}

const BRIEF = 160; // characters of the arguments, on the line that is pressed

function CallView(props: { call: Call; word?: string }) {
  const { call, word = "Calls" } = props;
  return (
    <details class="said-call">
      <summary>
        <strong>
          {word} <bdi>{call.name}</bdi>
        </strong>{" "}
        <code class="muted">{call.arguments.slice(0, BRIEF)}</code>
      </summary>
      {call.id && <code class="muted break">{call.id}</code>}
      <pre>{readable(call.arguments)}</pre>
    </details>
  );
}
