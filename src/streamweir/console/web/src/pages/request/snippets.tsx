// The same request once more, to copy: as a command or as code. With what was said where that is shown, else with a
// placeholder for it. The key is never known here.
import { useState } from "preact/hooks";
import { KEY_VARIABLE, readBody, skeleton, snippet, type Language } from "../../lib/snippet";
import type { ContentView as Content, RequestDetail } from "../../lib/types";
import { Choice, CopyButton, Panel } from "../../ui/parts";

const LANGUAGES: readonly (readonly [Language, string])[] = [
  ["curl", "curl"],
  ["python", "Python"],
  ["javascript", "JavaScript"],
  ["fetch", "fetch"],
];

export function Snippets(props: { row: RequestDetail; content: Content | null }) {
  const { row, content } = props;
  const [language, setLanguage] = useState<Language>("curl");
  const kept = content && readBody(content.prompt) ? content.prompt : null;
  const text = snippet(language, { origin: location.origin, dialect: row.dialect, body: kept ?? skeleton(row.model, row.stream, row.dialect) });
  return (
    <Panel
      title="Send it again"
      actions={
        <>
          <Choice label="Language" value={language} options={LANGUAGES} onChange={setLanguage} />
          <CopyButton text={text} />
        </>
      }
    >
      <div class="stack">
        <pre class="said-code" tabIndex={0} role="region" aria-label="Code">
          {text}
        </pre>
        <p class="muted small">
          {about(row, content, kept !== null)} The key is read from <code>{KEY_VARIABLE}</code>.
        </p>
      </div>
    </Panel>
  );
}

function about(row: RequestDetail, content: Content | null, isKept: boolean): string {
  if (isKept) return "With the original body; anything that looked like a secret is removed.";
  if (content) return "The stored body cannot be sent again: this is a similar one.";
  return row.has_content ? "Show the content above to fill in the body." : "The body is not stored: this is a similar one.";
}
