// A secret, the one time it can be seen. It lives in this dialog's state alone and is gone when the dialog is.
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { agentModel, claudeOf, codexOf, curlOf } from "../../lib/keyform";
import { useLoad } from "../../lib/load";
import { may } from "../../lib/permission";
import type { NewKeyView as NewKey, PlaygroundView } from "../../lib/types";
import { Button, Choice, CopyButton, Dialog, Once } from "../../ui/parts";

const WAYS = [
  ["curl", "curl"],
  ["claude", "Claude Code"],
  ["codex", "Codex"],
] as const;

export function Secret(props: { made: NewKey; onClose: () => void }) {
  const { made } = props;
  const { data } = useLoad((abort) => (may("playground") ? get<PlaygroundView>("/api/playground", {}, abort) : Promise.resolve(null)), []);
  const own = made.models?.find((each) => !each.endsWith("*"));
  const models = [own, data?.default_model, ...(data?.models ?? [])].filter((each) => typeof each === "string");
  const [way, setWay] = useState<"curl" | "claude" | "codex">("curl");
  const lines =
    way === "curl"
      ? curlOf(location.origin, made.secret, models[0] ?? "MODEL")
      : (way === "claude" ? claudeOf : codexOf)(location.origin, made.secret, own ?? agentModel(models));
  return (
    <Dialog title={`The secret of ${made.name}`} wide onClose={props.onClose}>
      <div class="form">
        <p>
          <strong>Copy it now: it will not be shown again.</strong> The gateway stores only a digest of it.
        </p>
        <Once label="Secret" text={made.secret} />
        {made.scopes.includes("chat") && (
          <div>
            <div class="spread">
              <h3>Try it</h3>
              <div class="row">
                <Choice label="Way" value={way} options={WAYS} onChange={setWay} />
                <CopyButton text={lines} />
              </div>
            </div>
            <pre class="sunken">{lines}</pre>
          </div>
        )}
        <div class="dialog-actions">
          <Button tone="accent" onClick={props.onClose}>
            I have it
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
