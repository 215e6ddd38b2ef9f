// Two questions that read a whole log, and may take a minute: they are asked only when somebody wants to know.
import { useState } from "preact/hooks";
import { get, type ApiError } from "../../lib/api";
import { exactDollars, plural } from "../../lib/format";
import { asError } from "../../lib/load";
import { Badge, Button, Panel, Problem } from "../../ui/parts";
import { Table } from "../../ui/table";

interface Verification {
  is_as_written: boolean;
  first_broken_seq: number | null;
}

interface SumCheck {
  agrees: boolean;
  workspaces: number;
  rows: number;
  faults: { object: string; what: string; kept_usd: string | null; found_usd: string | null }[];
}

export function Checks() {
  const [log, verify] = useAsked<Verification>("/api/audit/verify");
  const [ledger, check] = useAsked<SumCheck>("/api/check");
  return (
    <Panel title="Checks">
      <div class="checks">
        <Button disabled={log.isBusy} onClick={verify}>
          Verify the log
        </Button>
        <div role="status">
          {log.isBusy && <span class="muted">Reading the whole log …</span>}
          {log.answer && <LogVerdict {...log.answer} />}
          {!log.isBusy && !log.answer && !log.error && <span class="muted">Checks that no row was changed or removed.</span>}
          <Problem error={log.error} />
        </div>
        <Button disabled={ledger.isBusy} onClick={check}>
          Check the ledger
        </Button>
        <div role="status">
          {ledger.isBusy && <span class="muted">Recomputing every total …</span>}
          {ledger.answer && <LedgerVerdict {...ledger.answer} />}
          {!ledger.isBusy && !ledger.answer && !ledger.error && <span class="muted">Checks that every balance and total matches the ledger rows.</span>}
          <Problem error={ledger.error} />
        </div>
      </div>
      {ledger.answer && ledger.answer.faults.length > 0 && (
        <Table
          label="Differences"
          rows={ledger.answer.faults.map((fault, place) => ({ ...fault, place }))}
          keyOf={(fault) => fault.place}
          columns={[
            { name: "Object", class: "clip", show: (fault) => <span class="mono">{fault.object}</span> },
            { name: "What", show: (fault) => fault.what },
            { name: "Stored", isNumber: true, show: (fault) => exactDollars(fault.kept_usd) },
            { name: "Recomputed", isNumber: true, show: (fault) => exactDollars(fault.found_usd) },
          ]}
        />
      )}
    </Panel>
  );
}

function LogVerdict(props: Verification) {
  if (props.is_as_written) return <Badge tone="good">The log is intact</Badge>;
  return <Badge tone="bad">Row {props.first_broken_seq ?? "?"} is the first one changed or missing</Badge>;
}

function LedgerVerdict(props: SumCheck) {
  const looked = `${plural(props.rows, "row")} of ${plural(props.workspaces, "workspace")} checked`;
  return (
    <>
      {props.agrees ? <Badge tone="good">The ledger is consistent</Badge> : <Badge tone="bad">{plural(props.faults.length, "total differs", "totals differ")}</Badge>} <span class="muted">{looked}</span>
    </>
  );
}

interface Asked<T> {
  answer: T | null;
  error: ApiError | null;
  isBusy: boolean;
}

function useAsked<T>(path: string): [Asked<T>, () => Promise<void>] {
  const [state, setState] = useState<Asked<T>>({ answer: null, error: null, isBusy: false });
  const ask = async () => {
    setState({ answer: null, error: null, isBusy: true });
    try {
      setState({ answer: await get<T>(path), error: null, isBusy: false });
    } catch (reason) {
      setState({ answer: null, error: asError(reason), isBusy: false });
    }
  };
  return [state, ask];
}
