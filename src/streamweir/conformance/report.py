"""Formats a report: lines, a drawn table, JSON, JUnit XML, a one-line summary, an exit status.

Everything that an endpoint sent is untrusted. It is escaped to ASCII, so that no terminal and no web page interprets
it. Nothing here prints or opens a file.
"""

import xml.etree.ElementTree as ElementTree
from collections import Counter
from typing import TYPE_CHECKING, Any

from streamweir.conformance.evaluate import Nearest, Report
from streamweir.conformance.rule import EXCERPT_BYTES, Finding, Outcome, Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

HOLDS = 0
FINDINGS = 1
NOT_CHECKED = 2

_STYLES = {Outcome.HOLDS: "green", Outcome.BROKEN: "bold red", Outcome.ODD: "yellow", Outcome.SKIPPED: "dim"}
_INDENT = "  "


def exit_status(report: Report) -> int:
    if not report.has_checked:
        return NOT_CHECKED
    return HOLDS if report.holds else FINDINGS


def badge(report: Report) -> str:
    """The last line: `openai: 42 of 42 rules hold`, with the numbers of broken, odd and skipped rules."""
    holding, skipped = len(report.with_outcome(Outcome.HOLDS)), len(report.with_outcome(Outcome.SKIPPED))
    parts = [f"{len(found)} {word}" for word in (Outcome.BROKEN, Outcome.ODD) if (found := report.with_outcome(word))]
    if skipped:
        parts.append(f"{skipped} skipped")
    tail = f" ({', '.join(parts)})" if parts else ""
    return f"{report.dialect.name}: {holding} of {len(report.verdicts) - skipped} rules hold{tail}"


def nearest_summary(nearest: Nearest) -> str:
    """Which dialect was chosen because none was named, and its distance."""
    name, other = nearest.dialect.name, nearest.runner_up.name
    if nearest.distance == nearest.runner_up_distance:
        return f"no dialect was named: {name} is taken, and {other} is as near"
    apart = "apart from the missing end, " if nearest.is_cut else ""
    return (
        f"no dialect was named: {name} is the nearest ({apart}{nearest.distance.broken} broken, "
        f"{nearest.distance.odd} odd; {other}: {nearest.runner_up_distance.broken} broken, "
        f"{nearest.runner_up_distance.odd} odd)"
    )


def escape_bytes(data: bytes) -> str:
    """Escapes untrusted bytes: printable ASCII stays, everything else is written as in a Python literal."""
    tail = "..." if len(data) > EXCERPT_BYTES else ""
    return data[:EXCERPT_BYTES].decode("latin-1").encode("unicode_escape").decode("ascii") + tail


def escape_text(text: str) -> str:
    """Escapes text that may contain untrusted characters: messages, names of recordings."""
    return text if text.isascii() and text.isprintable() else text.encode("unicode_escape").decode("ascii")


def location_of(finding: Finding) -> str:
    """The answer, the frame and the byte of a finding."""
    parts = [escape_text(finding.answer)] if finding.answer else []
    if finding.frame is not None:
        parts.append(f"frame {finding.frame}")
    if finding.offset is not None:
        parts.append(f"byte {finding.offset}")
    return ", ".join(parts)


def lines(report: Report, *, every_rule: bool = False) -> list[str]:
    """For a pipe: the findings, what else was checked, then the summary."""
    shown: list[str] = []
    for verdict in _violated(report):
        shown += [*_explain(verdict, report), ""]
    rest = _rule_lines(report) if every_rule else _folded(report)
    return [*shown, *rest, "", badge(report)] if rest else [*shown, badge(report)]


def draw(report: Report, console: "Console", *, every_rule: bool = False) -> None:
    """The same for a terminal."""
    from rich.text import Text

    for verdict in _violated(report):
        head, *explanation = _explain(verdict, report)
        console.print(Text(head, style=_STYLES[verdict.outcome]))
        for line in explanation:
            console.print(Text(line), soft_wrap=True)
        console.print()
    if every_rule:
        console.print(_table(report))
    else:
        for line in _folded(report):
            console.print(Text(line, style="dim"), soft_wrap=True)
    console.print()
    console.print(Text(badge(report), style="bold green" if report.holds else "bold"), soft_wrap=True)


def document(report: Report, nearest: Nearest | None = None) -> dict[str, Any]:
    """For `--json`. Bytes are shown as escaped text."""
    return {
        "dialect": report.dialect.name,
        "nearest": None if nearest is None else {"dialect": nearest.dialect.name, **nearest.distance._asdict()},
        "summary": badge(report),
        "holds": report.holds,
        "counts": {outcome.value: len(report.with_outcome(outcome)) for outcome in Outcome},
        "rules": [_rule_document(verdict, report) for verdict in report.verdicts],
    }


def junit(report: Report, name: str = "streamweir check") -> bytes:
    """For CI: one test case for each rule. It also fails for odd findings; a skipped rule is a skipped test."""
    failed = len(report.with_outcome(Outcome.BROKEN)) + len(report.with_outcome(Outcome.ODD))
    counts = {
        "tests": str(len(report.verdicts)),
        "failures": str(failed),
        "skipped": str(len(report.with_outcome(Outcome.SKIPPED))),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", {"name": escape_text(name), **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": report.dialect.name, **counts})
    for verdict in report.verdicts:
        rule = verdict.rule
        where = {"classname": f"{report.dialect.name}.{rule.group}", "name": rule.id}
        case = ElementTree.SubElement(suite, "testcase", where)
        if verdict.findings:
            head = f"{rule.title}: {escape_text(verdict.findings[0].message)}"
            failure = ElementTree.SubElement(case, "failure", {"type": verdict.outcome.value, "message": head})
            failure.text = "\n".join(_explain(verdict, report))
        elif verdict.outcome is Outcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", {"message": escape_text(verdict.reason)})
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _violated(report: Report) -> list[Verdict]:
    return [*report.with_outcome(Outcome.BROKEN), *report.with_outcome(Outcome.ODD)]


def _folded(report: Report) -> list[str]:
    """The rules without findings, in a few lines: those that hold by group, the skipped ones by reason."""
    holding, skipped = report.with_outcome(Outcome.HOLDS), report.with_outcome(Outcome.SKIPPED)
    shown = []
    if holding:
        groups = Counter(verdict.rule.group for verdict in holding)
        shown.append(f"{_rules(len(holding))} hold{'s' * (len(holding) == 1)}: {_counts(groups)}")
    if skipped:
        reasons = Counter(escape_text(verdict.reason) for verdict in skipped)
        shown.append(f"{_rules(len(skipped))} skipped: {_counts(reasons)}")
    return [*shown, "--all lists every rule"] if shown else []


def _rules(count: int) -> str:
    return f"{count} rule{'s' * (count != 1)}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counter.items())


def _rule_lines(report: Report) -> list[str]:
    width = max((len(verdict.rule.id) for verdict in report.verdicts), default=0)
    return [f"{v.outcome.value:<7}  {v.rule.id:<{width}}  {_summary(v)}".rstrip() for v in report.verdicts]


def _table(report: Report) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("RULE", "OUTCOME", ""):
        table.add_column(name, no_wrap=name == "RULE", overflow="fold")
    for verdict in report.verdicts:
        outcome = Text(verdict.outcome.value, style=_STYLES[verdict.outcome])
        table.add_row(Text(verdict.rule.id), outcome, Text(_summary(verdict)))
    return table


def _summary(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.SKIPPED:
        return escape_text(verdict.reason)
    return verdict.rule.title


def _explain(verdict: Verdict, report: Report) -> list[str]:
    rule = verdict.rule
    value = rule.value(report.dialect)
    shown = [
        f"{rule.id}: {verdict.outcome.value}",
        f"{_INDENT}rule    {rule.text}" + (f" Here: {value}." if value else ""),
        f"{_INDENT}why     {rule.why}",
        f"{_INDENT}source  {rule.source}",
    ]
    for finding in verdict.findings:
        where = location_of(finding)
        shown.append(f"{_INDENT}found   {f'{where}: ' if where else ''}{escape_text(finding.message)}")
        if finding.excerpt:
            shown.append(f"{_INDENT}        {escape_bytes(finding.excerpt)}")
    if verdict.count > len(verdict.findings):
        shown.append(f"{_INDENT}        and {verdict.count - len(verdict.findings)} more")
    return shown


def _rule_document(verdict: Verdict, report: Report) -> dict[str, Any]:
    rule = verdict.rule
    return {
        "id": rule.id,
        "outcome": verdict.outcome.value,
        "title": rule.title,
        "text": rule.text,
        "value": rule.value(report.dialect) or None,
        "why": rule.why,
        "source": rule.source,
        "reason": escape_text(verdict.reason) or None,
        "count": verdict.count,
        "findings": [
            {
                "severity": finding.severity.value,
                "message": escape_text(finding.message),
                "answer": escape_text(finding.answer) or None,
                "frame": finding.frame,
                "offset": finding.offset,
                "bytes": escape_bytes(finding.excerpt) or None,
            }
            for finding in verdict.findings
        ],
    }
