"""What the pages of the console ask, one by one, with what must be true of the answer.

Every filter is asked with a value that most rows have, with one that few have and with one that none
has, over all the time and within ten days; pages near the beginning and deep in the log; ids. What
reads all of the books by its nature (`/api/check`, `/api/audit/verify`) is not asked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from bench.console_data import DAY_MS, MODELS, RARE_MODEL, Filled

Answer = Mapping[str, Any]
Ask = Callable[[str], Answer]
"""A path, and what the gateway says to it."""

PAGE = 50
DEPTHS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Question:
    name: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    is_right: Callable[[Answer], bool] = bool
    by_admin_key: bool = False
    """Of one workspace, not the operator."""
    status: int = 200

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True)
class _Filter:
    """`common`: a whole page has it. `absent`: nothing has."""

    name: str
    common: Mapping[str, object] | None = None
    rare: Mapping[str, object] | None = None
    absent: Mapping[str, object] | None = None
    has: Callable[[Answer, Mapping[str, object]], bool] = lambda row, query: all(
        row[name] == value for name, value in query.items()
    )


def questions(filled: Filled, ask: Ask) -> Iterator[Question]:
    """`ask`: for what must be known before the next can be asked."""
    yield from _overviews(filled)
    yield from _lists(filled)
    yield from _deep_pages(filled, ask)
    yield from _ids(filled)
    yield from _others()


def _overviews(filled: Filled) -> Iterator[Question]:
    for period in ("hour", "day", "week", "month"):
        for by in ("model", "key", "provider"):
            yield Question(f"overview, {period} by {by}", "/api/overview", {"period": period, "by": by}, _adds_up)
    for name, value in (("model", MODELS[0][0]), ("key", filled.key_id), ("provider", "openai")):
        for period in ("week", "month"):
            by = "model" if name == "key" else "key"
            query = {"period": period, "by": by, name: value}
            yield Question(f"overview, {period} by {by}, of one {name}", "/api/overview", query, _adds_up)
    query = {"period": "week", "by": "model"}
    yield Question("overview, week by model, of a workspace", "/api/overview", query, _adds_up, by_admin_key=True)
    for step in ("minute", "quarter", "hour", "two_hours", "day"):
        yield Question(f"usage by the {step}", "/api/usage", {"step": step, "by": "model"}, _has_total)


def _adds_up(answer: Answer) -> bool:
    total = answer["total"]["requests"]
    parts = (answer["groups"], answer["series"], answer["group_series"])
    return total > 0 and all(sum(each["usage"]["requests"] for each in part) == total for part in parts)


def _has_total(answer: Answer) -> bool:
    return bool(answer["total"]["requests"] > 0)


def _filters(filled: Filled) -> tuple[_Filter, ...]:
    model, rare = MODELS[0][0], "0.05"
    return (
        _Filter("nothing", {}),
        _Filter("workspace", {"workspace": filled.workspace}, {"workspace": filled.small_workspace}),
        _Filter("key", {"key": filled.key_id}, {"key": filled.rare_key_id}, {"key": "key_none"}, _of_key),
        _Filter("model", {"model": model}, {"model": RARE_MODEL}, {"model": "none"}),
        _Filter("provider", {"provider": "openai"}, None, {"provider": "none"}, _of_provider),
        _Filter("target", {"target": f"openai/{model}"}, {"target": "google/gpt-4.1"}, {"target": "openai/none"}),
        _Filter("dialect", {"dialect": "openai"}, {"dialect": "bitseek"}, {"dialect": "completions"}),
        _Filter("verdict", {"verdict": "completed"}, {"verdict": "stopped"}, {"verdict": "orphaned"}),
        _Filter("status", {"status_class": 2}, {"status_class": 5}, {"status_class": 3}, _of_class),
        _Filter("error", {"error": "rate_limit_exceeded"}, {"error": "stopped_by_operator"}, {"error": "none"}),
        _Filter("failed", {"failed": "false"}, {"failed": "true"}, None, _has_failed),
        _Filter("stream", {"stream": "true"}, {"stream": "false"}, None, _is_stream),
        _Filter("price", {"min_price_usd": "0.001"}, {"min_price_usd": rare}, {"min_price_usd": "1000"}, _is_sold_for),
        _Filter(
            "model, verdict and dialect",
            {"model": model, "verdict": "completed", "dialect": "openai"},
            {"model": model, "verdict": "truncated", "dialect": "bitseek"},
            {"model": model, "verdict": "orphaned", "dialect": "bitseek"},
        ),
    )


def _of_key(row: Answer, query: Mapping[str, object]) -> bool:
    return bool(row["key_id"] == query["key"])


def _of_provider(row: Answer, query: Mapping[str, object]) -> bool:
    return str(row["target"]).startswith(f"{query['provider']}/")


def _of_class(row: Answer, query: Mapping[str, object]) -> bool:
    return bool(row["status"] // 100 == query["status_class"])


def _has_failed(row: Answer, query: Mapping[str, object]) -> bool:
    return (row["error"] is not None) == (query["failed"] == "true")


def _is_stream(row: Answer, query: Mapping[str, object]) -> bool:
    return bool(row["stream"]) == (query["stream"] == "true")


def _is_sold_for(row: Answer, query: Mapping[str, object]) -> bool:
    return float(row["price_usd"]) >= float(str(query["min_price_usd"]))


def _lists(filled: Filled) -> Iterator[Question]:
    middle = (filled.since_ms + filled.until_ms) // 2
    span = {"since_ms": middle - 5 * DAY_MS, "until_ms": middle + 5 * DAY_MS}
    for each in _filters(filled):
        for kind, query in (("common", each.common), ("rare", each.rare), ("absent", each.absent)):
            if query is None:
                continue
            is_right = _page_of(kind, each, query)
            name = f"requests by {each.name}, {kind}" if query else "requests"
            yield Question(name, "/api/requests", query, is_right)
            yield Question(f"{name}, in ten days", "/api/requests", {**query, **span}, is_right)
            if kind == "absent":
                yield Question(f"{name}, of a workspace", "/api/requests", query, is_right, by_admin_key=True)
    yield Question("requests, 1000 on a page", "/api/requests", {"limit": 1000}, lambda page: len(page["data"]) == 1000)


def _page_of(kind: str, each: _Filter, query: Mapping[str, object]) -> Callable[[Answer], bool]:
    def is_right(page: Answer) -> bool:
        rows = page["data"]
        if kind == "common" and len(rows) != PAGE:
            return False
        if kind == "absent" and rows:
            return False
        return all(each.has(row, query) for row in rows)

    return is_right


def _deep_pages(filled: Filled, ask: Ask) -> Iterator[Question]:
    for depth in DEPTHS:
        until_ms = filled.until_ms - round(depth * (filled.until_ms - filled.since_ms))
        place = ask(f"/api/requests?limit=1&until_ms={until_ms}")["next"]
        for name, query in (("", {}), (" by verdict, rare", {"verdict": "truncated"})):
            yield Question(f"requests{name}, a page {depth:.0%} back", "/api/requests", {**query, "cursor": place})


def _ids(filled: Filled) -> Iterator[Question]:
    middle = len(filled.request_ids) // 2
    id, completion = filled.request_ids[middle], filled.completion_ids[middle]

    def finds(page: Answer) -> bool:
        return any(row["request_id"] == id for row in page["data"])

    yield Question("search by the request id", "/api/requests", {"id": id}, finds)
    yield Question("search by 16 of its characters", "/api/requests", {"id": id[:16]}, finds)
    yield Question("search by 12 of its characters", "/api/requests", {"id": id[:12], "limit": 1000}, finds)
    yield Question("search by the completion id", "/api/requests", {"id": completion}, finds)
    yield Question("search by an id that is not there", "/api/requests", {"id": "chatcmpl-none"}, _is_empty)
    for name, wanted in (("its id", id), ("its completion id", completion)):
        yield Question(f"one request by {name}", f"/api/requests/{quote(wanted)}", {}, lambda it: it["state"] == "over")
    yield Question("one request that is not there", "/api/requests/req_none", status=404)


def _is_empty(page: Answer) -> bool:
    return not page["data"]


def _others() -> Iterator[Question]:
    for name in ("keys", "workspaces", "credits", "ledger", "live", "audit", "providers", "prices"):
        yield Question(name, f"/api/{name}")
    for kind in ("charge", "credit", "reservation", "all"):
        yield Question(f"ledger, {kind}", "/api/ledger", {"kind": kind})
