"""A report as people and machines read it: lines, a drawn table, JSON, JUnit, one last line, an exit status.

Everything that an endpoint sent is foreign: it is shown escaped, in ASCII, so that no terminal and no page
obeys it. Nothing here prints or opens a file.
"""

import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Any

from streamweir.conformance.evaluate import Nearest, Report
from streamweir.conformance.rule import EXCERPT_BYTES, Finding, Outcome, Verdict

if TYPE_CHECKING:
    from rich.console import Console

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
    """The last line: `openai: 42 of 42 rules hold`, and what else there is to say."""
    holding, skipped = len(report.of(Outcome.HOLDS)), len(report.of(Outcome.SKIPPED))
    told = [f"{len(found)} {word}" for word in (Outcome.BROKEN, Outcome.ODD) if (found := report.of(word))]
    if skipped:
        told.append(f"{skipped} skipped")
    tail = f" ({', '.join(told)})" if told else ""
    return f"{report.dialect.name}: {holding} of {len(report.verdicts) - skipped} rules hold{tail}"


def nearest_line(nearest: Nearest) -> str:
    """Which dialect was taken where none was named, and by how much."""
    name, other = nearest.dialect.name, nearest.runner_up.name
    if nearest.distance == nearest.its_distance:
        return f"no dialect was named: {name} is taken, and {other} is as near"
    return (
        f"no dialect was named: {name} is the nearest ({nearest.distance.broken} broken, {nearest.distance.odd} odd; "
        f"{other}: {nearest.its_distance.broken} broken, {nearest.its_distance.odd} odd)"
    )


def escaped(data: bytes) -> str:
    """Foreign bytes for a page or a terminal: printable ASCII as it is, all else as in a Python literal."""
    shown = data[:EXCERPT_BYTES]
    tail = "..." if len(data) > EXCERPT_BYTES else ""
    return shown.decode("latin-1").encode("unicode_escape").decode("ascii") + tail


def plain(text: str) -> str:
    """A message may quote foreign text, and a recording has a foreign name."""
    return text if text.isascii() and text.isprintable() else text.encode("unicode_escape").decode("ascii")


def place(finding: Finding) -> str:
    """Where it stands: the answer, the frame, the byte."""
    told = [plain(finding.answer)] if finding.answer else []
    if finding.frame is not None:
        told.append(f"frame {finding.frame}")
    if finding.offset is not None:
        told.append(f"byte {finding.offset}")
    return ", ".join(told)


def lines(report: Report) -> list[str]:
    """For a pipe: one line for each rule, then what was found, then the last line."""
    width = max((len(verdict.rule.id) for verdict in report.verdicts), default=0)
    shown = [f"{v.outcome.value:<7}  {v.rule.id:<{width}}  {_said(v)}".rstrip() for v in report.verdicts]
    for verdict in report.verdicts:
        if verdict.findings:
            shown += ["", *_explained(verdict, report)]
    return [*shown, "", badge(report)]


def draw(report: Report, console: "Console") -> None:
    """For a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("RULE", "OUTCOME", ""):
        table.add_column(name, no_wrap=name == "RULE", overflow="fold")
    for verdict in report.verdicts:
        outcome = Text(verdict.outcome.value, style=_STYLES[verdict.outcome])
        table.add_row(Text(verdict.rule.id), outcome, Text(_said(verdict)))
    console.print(table)
    for verdict in report.verdicts:
        if verdict.findings:
            head, *rest = _explained(verdict, report)
            console.print()
            console.print(Text(head, style=_STYLES[verdict.outcome]))
            for line in rest:
                console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(Text(badge(report), style="bold green" if report.holds else "bold"), soft_wrap=True)


def document(report: Report, nearest: Nearest | None = None) -> dict[str, Any]:
    """For `--json`. Bytes are escaped text."""
    return {
        "dialect": report.dialect.name,
        "nearest": None if nearest is None else {"dialect": nearest.dialect.name, **nearest.distance._asdict()},
        "summary": badge(report),
        "holds": report.holds,
        "counts": {outcome.value: len(report.of(outcome)) for outcome in Outcome},
        "rules": [_rule_document(verdict, report) for verdict in report.verdicts],
    }


def junit(report: Report, name: str = "streamweir check") -> bytes:
    """For CI: a test case for each rule. Odd findings fail it too; a rule with nothing to look at is skipped."""
    failed = len(report.of(Outcome.BROKEN)) + len(report.of(Outcome.ODD))
    counts = {
        "tests": str(len(report.verdicts)),
        "failures": str(failed),
        "skipped": str(len(report.of(Outcome.SKIPPED))),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", {"name": plain(name), **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": report.dialect.name, **counts})
    for verdict in report.verdicts:
        rule = verdict.rule
        where = {"classname": f"{report.dialect.name}.{rule.group}", "name": rule.id}
        case = ElementTree.SubElement(suite, "testcase", where)
        if verdict.findings:
            head = f"{rule.title}: {plain(verdict.findings[0].message)}"
            failure = ElementTree.SubElement(case, "failure", {"type": verdict.outcome.value, "message": head})
            failure.text = "\n".join(_explained(verdict, report))
        elif verdict.outcome is Outcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", {"message": plain(verdict.reason)})
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _said(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.SKIPPED:
        return plain(verdict.reason)
    return verdict.rule.title


def _explained(verdict: Verdict, report: Report) -> list[str]:
    rule = verdict.rule
    value = rule.value(report.dialect)
    shown = [
        f"{rule.id}: {verdict.outcome.value}",
        f"{_INDENT}rule    {rule.text}" + (f" Here: {value}." if value else ""),
        f"{_INDENT}why     {rule.why}",
        f"{_INDENT}source  {rule.source}",
    ]
    for finding in verdict.findings:
        where = place(finding)
        shown.append(f"{_INDENT}found   {f'{where}: ' if where else ''}{plain(finding.message)}")
        if finding.excerpt:
            shown.append(f"{_INDENT}        {escaped(finding.excerpt)}")
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
        "reason": plain(verdict.reason) or None,
        "count": verdict.count,
        "findings": [
            {
                "severity": finding.severity.value,
                "message": plain(finding.message),
                "answer": plain(finding.answer) or None,
                "frame": finding.frame,
                "offset": finding.offset,
                "bytes": escaped(finding.excerpt) or None,
            }
            for finding in verdict.findings
        ],
    }
