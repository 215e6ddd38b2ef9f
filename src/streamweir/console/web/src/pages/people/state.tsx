// Whether a person can sign in, and if not, why.
import { moment } from "../../lib/format";
import type { PersonView } from "../../lib/types";
import { Badge } from "../../ui/parts";

export function State(props: { person: PersonView }) {
  const { disabled_ms, has_password, is_federated, invited_until_ms } = props.person;
  if (disabled_ms !== null) return <Badge title={`Since ${moment(disabled_ms)}`}>Disabled</Badge>;
  if (is_federated) return <Badge tone="good" title="Signs in at the identity provider">Active</Badge>;
  if (has_password) return <Badge tone="good">Active</Badge>;
  const isOpen = Date.now() < (invited_until_ms ?? 0);
  return (
    <Badge tone={isOpen ? "accent" : "warn"} title={`Until ${moment(invited_until_ms ?? 0)}`}>
      {isOpen ? "Invited" : "Invitation expired"}
    </Badge>
  );
}
