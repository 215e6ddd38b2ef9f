"""Writes docs/conformance.md: the rules, and which of them the recorded streams of real providers break.

    python scripts/conformance.py [--corpus FOLDER] [--check]

The tables stand between marks in the page; the rest of it is left as it is. Without the recordings (they
are no part of the project) only the table of rules is written. With `--check` nothing is written, and the
exit status is 1 where the page would change.
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamweir.conformance import Outcome, Recording, Report, RequestInfo, Rule, check, check_responses, nearest
from streamweir.conformance.embeddings.api import EMBEDDINGS_API
from streamweir.conformance.embeddings.endpoint import SESSION_RULES as EMBEDDINGS_SESSION_RULES
from streamweir.conformance.embeddings.rules import OWN as EMBEDDINGS_OWN
from streamweir.conformance.endpoint.table import RULES as ENDPOINT_RULES
from streamweir.conformance.messages.api import MESSAGES_API
from streamweir.conformance.messages.endpoint import SESSION_RULES
from streamweir.conformance.messages.table import OWN
from streamweir.conformance.responses.api import RESPONSES_API
from streamweir.conformance.responses.endpoint import SESSION_RULES as RESPONSES_SESSION_RULES
from streamweir.conformance.responses.table import OWN as RESPONSES_OWN
from streamweir.conformance.rules.table import RULES
from streamweir.frontends.chat.table import DIALECTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
CORPUS = ROOT.parent / "shared" / "corpus"
FAMILY = "openai-chat"
RESPONSES_FAMILY = "openai-responses"

INVENTED = {
    "recorded-normalised": (
        "identity.created",
        "identity.id-form",
        "framing.data-prefix",
        "framing.unique-members",
        "response.id",
        "item.id-form",
    ),
    "recorded-reframed": ("framing.", "keepalive.one", "keepalive.between", "end.", "event.name", "event.no-done"),
}
"""What the recorder rewrote, by the corpus's own README: no rule may depend on it."""
LEFT_OUT = ("fixture-edited", "test-literal")

Row = Iterable[str]


@dataclass
class Provider:
    streams: int = 0
    clean: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    looked: Counter[str] = field(default_factory=Counter)
    """How many streams gave a rule something to look at."""
    nearest: Counter[str] = field(default_factory=Counter)


def table(head: Row, rows: Iterable[Row]) -> str:
    cells = [list(head), ["---" for _ in head], *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def dialects_of(rule: Rule[Any, Any]) -> str:
    names = [name for name, dialect in DIALECTS.items() if rule.applies_to(dialect)]
    return "all" if len(names) == len(DIALECTS) else ", ".join(names)


def severity_of(rule: Rule[Any, Any]) -> str:
    lenient = [name for name, dialect in DIALECTS.items() if rule.applies_to(dialect) and rule.odd_in(dialect)]
    return f"{rule.severity} (odd in {', '.join(lenient)})" if lenient else str(rule.severity)


def rule_tables(rules: Iterable[Rule[Any, Any]]) -> str:
    groups: dict[str, list[Rule[Any, Any]]] = defaultdict(list)
    for rule in rules:
        groups[rule.group].append(rule)
    parts = []
    for group, members in groups.items():
        rows = [
            (f"`{rule.id}`", rule.text, severity_of(rule), dialects_of(rule), rule.why, rule.source) for rule in members
        ]
        parts.append(f"### {group}\n\n" + table(("rule", "says", "severity", "dialects", "why", "source"), rows))
    values = [
        (f"`{rule.id}`", *(rule.value(each) if rule.applies_to(each) else "-" for each in DIALECTS.values()))
        for members in groups.values()
        for rule in members
        if any(rule.value(each) for each in DIALECTS.values() if rule.applies_to(each))
    ]
    parts.append("### In each dialect\n\n" + table(("rule", *DIALECTS), values))
    return "\n\n".join(parts)


def asked_of(corpus: Path, entry: dict[str, Any]) -> RequestInfo:
    """What the request said, where it was recorded whole."""
    file = entry.get("request_file")
    if not file or entry.get("request_elided") or not (corpus / file).exists():
        return RequestInfo(stream=True)
    request = json.loads((corpus / file).read_bytes())
    if not isinstance(request, dict):
        return RequestInfo(stream=True)
    options = request.get("stream_options")
    return RequestInfo(
        stream=True,
        include_usage=bool(isinstance(options, dict) and options.get("include_usage")),
        model=request.get("model") if isinstance(request.get("model"), str) else None,
        choices=request.get("n") if type(request.get("n")) is int else 1,
        tools=bool(request.get("tools")),
    )


def provider_results(corpus: Path) -> tuple[dict[str, Provider], Counter[str]]:
    """By provider, and how many files there are of each provenance."""
    found: dict[str, Provider] = defaultdict(Provider)
    provenances: Counter[str] = Counter()
    for entry in json.loads((corpus / "manifest.json").read_bytes()):
        if entry["family"] != FAMILY:
            continue
        provenances[entry["provenance"]] += 1
        if entry["provenance"] in LEFT_OUT:
            continue
        recording = Recording(
            body=(corpus / entry["file"]).read_bytes(), request=asked_of(corpus, entry), status=entry["status"]
        )
        provider = found[entry["provider"]]
        provider.streams += 1
        provider.nearest[nearest([recording]).dialect.name] += 1
        invented = list(INVENTED.get(entry["provenance"], ()))
        if recording.body.endswith(b"[DONE]"):
            invented.append("framing.last-frame")  # a file that was kept as text lost its last line ends
        count_verdicts(provider, check(recording, DIALECTS["openai"]), invented)
    return found, provenances


def count_verdicts(provider: Provider, report: Report, invented: Iterable[str]) -> None:
    """`invented`: what the recorder rewrote."""
    is_clean = True
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.SKIPPED or verdict.rule.id.startswith(tuple(invented)):
            continue
        provider.looked[verdict.rule.id] += 1
        if verdict.outcome is not Outcome.HOLDS:
            is_clean = False
            (provider.broken if verdict.outcome is Outcome.BROKEN else provider.odd)[verdict.rule.id] += 1
    provider.clean += is_clean


def told(counts: Counter[str], looked: Counter[str]) -> str:
    return ", ".join(f"`{rule}` {n}/{looked[rule]}" for rule, n in sorted(counts.items(), key=_most)) or "-"


def _most(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def provider_table(found: dict[str, Provider]) -> str:
    names = sorted(found, key=lambda name: (-found[name].streams, name))
    rows = [
        (
            name,
            str(found[name].streams),
            str(found[name].clean),
            told(found[name].broken, found[name].looked),
            told(found[name].odd, found[name].looked),
        )
        for name in names
    ]
    return table(("provider", "streams", "without a finding", "broken", "odd"), rows)


def provider_tables(found: dict[str, Provider], provenances: Counter[str]) -> str:
    names = sorted(found, key=lambda name: (-found[name].streams, name))
    by_rule = []
    for rule in RULES:
        for severity, counted in (("broken", "broken"), ("odd", "odd")):
            those = [(name, getattr(found[name], counted)[rule.id]) for name in names]
            those = [(name, count) for name, count in those if count]
            if those:
                total = sum(count for _, count in those)
                who = ", ".join(f"{name} {count}" for name, count in sorted(those, key=_most))
                by_rule.append((total, (f"`{rule.id}`", severity, str(total), str(len(those)), who)))
    by_rule.sort(key=lambda row: -row[0])
    streams = sum(provider.streams for provider in found.values())
    clean = sum(provider.clean for provider in found.values())
    near = sum((provider.nearest for provider in found.values()), Counter[str]())
    return "\n\n".join(
        [
            f"{streams} streams of {len(found)} providers; {clean} of them break no rule. The nearest dialect is "
            + ", ".join(f"{name} for {count}" for name, count in near.most_common())
            + ". By how they were kept: "
            + ", ".join(f"{name} {count}" for name, count in provenances.most_common())
            + f"; {' and '.join(LEFT_OUT)} are not among the {streams}.",
            "### By provider",
            "How many of the provider's streams break the rule, of those that gave it something to look at.",
            provider_table(found),
            "### By rule",
            table(("rule", "severity", "streams", "providers", "who"), [row for _, row in by_rule]),
        ]
    )


def put_between(page: str, mark: str, text: str) -> str:
    pattern = re.compile(rf"(<!-- {mark}: begin[^\n]*-->\n).*?(\n<!-- {mark}: end -->)", re.DOTALL)
    put: Callable[[re.Match[str]], str] = lambda match: f"{match[1]}\n{text}\n{match[2]}"  # noqa: E731
    made, count = pattern.subn(put, page)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has no marks for {mark}")
    return made


def with_rules(page: str) -> str:
    rules: list[Rule[Any, Any]] = [*RULES, *ENDPOINT_RULES]
    page = put_between(page, "rules", rule_tables(rules))
    page = put_between(page, "messages-rules", api_table([*OWN, *SESSION_RULES], MESSAGES_API))
    responses_rules: list[Rule[Any, Any]] = [*RESPONSES_OWN, *RESPONSES_SESSION_RULES]
    page = put_between(page, "responses-rules", api_table(responses_rules, RESPONSES_API))
    embeddings_rules: list[Rule[Any, Any]] = [*EMBEDDINGS_OWN, *EMBEDDINGS_SESSION_RULES]
    return put_between(page, "embeddings-rules", api_table(embeddings_rules, EMBEDDINGS_API))


def api_table(rules: Iterable[Rule[Any, Any]], api: object) -> str:
    rows = [
        (f"`{rule.id}`", rule.text, rule.value(api) or "-", str(rule.severity), rule.why, rule.source) for rule in rules
    ]
    return table(("rule", "says", "value", "severity", "why", "source"), rows)


def with_providers(page: str, corpus: Path) -> str:
    page = put_between(page, "providers", provider_tables(*provider_results(corpus)))
    return put_between(page, "responses-providers", provider_table(responses_results(corpus)))


def responses_results(corpus: Path) -> dict[str, Provider]:
    """What the recorded streams of the Responses API break, by provider."""
    found: dict[str, Provider] = defaultdict(Provider)
    for entry in json.loads((corpus / "manifest.json").read_bytes()):
        if entry["family"] != RESPONSES_FAMILY or entry["provenance"] in (*LEFT_OUT, "fixture"):
            continue
        recording = Recording(body=(corpus / entry["file"]).read_bytes(), status=entry["status"])
        provider = found[entry["provider"]]
        provider.streams += 1
        count_verdicts(provider, check_responses(recording), INVENTED.get(entry["provenance"], ()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The tables of docs/conformance.md anew.")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    before = PAGE.read_text()
    page = with_rules(before)
    if (options.corpus / "manifest.json").exists():
        page = with_providers(page, options.corpus)
    else:
        sys.stderr.write(f"no recordings at {options.corpus}: the table of providers is left as it is\n")
    if options.check:
        raise SystemExit(page != before)
    PAGE.write_text(page)
    sys.stdout.write(f"{PAGE.name}: {'as it was' if page == before else 'written'}\n")


if __name__ == "__main__":
    main()
