"""`streamweir check`: checks whether an endpoint, or a recorded answer, conforms to a dialect or to an API.

Requests, rules and formats are in `streamweir.conformance`; this command only selects the target and writes the
report. The key can be set in the environment, because a command line is visible to other users; it is never printed.
Exit status: 0 every rule holds, 1 a rule is broken or odd, 2 could not be checked (or wrong usage), 130 after Ctrl-C.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from streamweir.cli.local_key import development_key
from streamweir.conformance import (
    Nearest,
    Recording,
    Report,
    RequestInfo,
    check,
    check_embeddings,
    check_messages,
    check_responses,
    nearest,
)
from streamweir.conformance.embeddings.answer import speaks_embeddings
from streamweir.conformance.embeddings.api import EMBEDDINGS_API
from streamweir.conformance.messages.answer import speaks_messages
from streamweir.conformance.messages.api import MESSAGES_API
from streamweir.conformance.report import (
    NOT_CHECKED,
    document,
    draw,
    escape_bytes,
    escape_text,
    exit_status,
    junit,
    lines,
    nearest_summary,
)
from streamweir.conformance.responses.answer import speaks_responses
from streamweir.conformance.responses.api import RESPONSES_API
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS

if TYPE_CHECKING:
    from streamweir.conformance.probe_session import ProbeSession


class _Api(NamedTuple):
    """An API without dialects."""

    name: str
    speaks: Callable[[Recording], bool]
    """A recorded answer has its form."""
    check: Callable[[Recording], Report]


_APIS = {
    api.name: api
    for api in (
        _Api(RESPONSES_API.name, speaks_responses, check_responses),
        _Api(MESSAGES_API.name, speaks_messages, check_messages),
        _Api(EMBEDDINGS_API.name, speaks_embeddings, check_embeddings),
    )
}

INTERRUPTED = 130
_MAX_FILE_BYTES = 64 * 1024 * 1024


class NotChecked(click.ClickException):
    """There is nothing to check."""

    exit_code = NOT_CHECKED

    def __init__(self, reason: str) -> None:
        super().__init__(f"could not check: {reason}")


@click.command("check", short_help="Check an endpoint or a recorded stream against the rules of its dialect.")
@click.argument("target", metavar="URL|FILE")
@click.option("--model", metavar="M", help="The model to request; for a file, the model that was requested.")
@click.option(
    "--dialect",
    "name",
    type=click.Choice([*sorted(DIALECTS), *sorted(_APIS)]),
    help="Dialect of chat completions, or embeddings, messages, responses.  [default: the closest one]",
)
@click.option(
    "--key", metavar="K", envvar="STREAMWEIR_KEY", help="API key.  [env: STREAMWEIR_KEY; default: the local gateway's]"
)
@click.option("--usage/--no-usage", default=None, help="For a file: whether usage was requested.")
@click.option(
    "--requests", type=click.IntRange(1, 1000), default=32, show_default=True, help="Maximum number of requests."
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=180,
    show_default=True,
    help="Time limit in seconds for all requests.",
)
@click.option("--all", "every_rule", is_flag=True, help="List the rules that hold and those that were skipped, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--junit", "junit_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the report as JUnit XML."
)
def command(
    target: str,
    model: str | None,
    name: str | None,
    key: str | None,
    usage: bool | None,
    requests: int,
    timeout: float,
    every_rule: bool,
    as_json: bool,
    junit_file: Path | None,
) -> NoReturn:
    """Check the endpoint at URL, or the recorded answer in FILE, against every rule of a dialect or an API.

    URL is the endpoint or its base URL (https://host/v1). It gets about two dozen small requests, at its usual prices.
    An address that ends with /messages, /responses or /embeddings is checked as that API.
    FILE (- is standard input) holds the body of an answer, with or without its head, as `curl -i` writes it.

    Exit status: 0 every rule holds, 1 a rule is broken or odd, 2 could not be checked, 130 after Ctrl-C.
    """
    dialect = DIALECTS.get(name) if name is not None else None
    facts: dict[str, Any]
    if target.lower().startswith(("http://", "https://")):
        last = target.rstrip("/").rpartition("/")[2]
        api = _APIS.get(name if name is not None else last)
        report, near, facts = _check_endpoint(target, model, dialect, key, requests, timeout, api)
    else:
        request = RequestInfo(include_usage=usage, model=model)
        recording = read_recording(_read(target), target, request)
        api = _APIS.get(name) if name is not None else _api_of(recording)
        near = nearest([recording]) if dialect is None and api is None else None
        if api is not None:
            report = api.check(recording)
        else:
            report = check(recording, near.dialect if near is not None else _given(dialect))
        facts = {"target": escape_text(target)}
    if junit_file is not None:
        _write(junit_file, junit(report, facts["target"]))
    _show(report, near, facts, every_rule=every_rule, as_json=as_json)
    sys.exit(exit_status(report))


def _api_of(recording: Recording) -> _Api | None:
    """By the form of the answer. None: chat completions, or neither."""
    return next((api for api in _APIS.values() if api.speaks(recording)), None)


def read_recording(data: bytes, name: str, request: RequestInfo) -> Recording:
    """Parses the body of an answer, with or without its head."""
    status: int | None = None
    headers: tuple[tuple[str, str], ...] | None = None
    while data.startswith(b"HTTP/"):  # more than one: interim responses, or a proxy's
        separator = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
        head, _, data = data.partition(separator)
        first, *fields = head.decode("latin-1").splitlines()
        words = first.split(" ")
        status = int(words[1]) if len(words) > 1 and words[1].isascii() and words[1].isdigit() else None
        headers = tuple((field.partition(":")[0].lower(), field.partition(":")[2].strip()) for field in fields)
    return Recording(body=data, name=name, request=request, status=status, headers=headers)


def _check_endpoint(
    target: str,
    model: str | None,
    dialect: Dialect | None,
    key: str | None,
    requests: int,
    timeout_s: float,
    api: _Api | None,
) -> tuple[Report, Nearest | None, dict[str, Any]]:
    try:
        from streamweir.conformance.probe import InvalidAddress, ProbeLimits, find_endpoint, probe
    except ModuleNotFoundError as missing:
        if missing.name != "httpx2":
            raise
        raise NotChecked("to ask an endpoint, install the extra 'client': pip install 'streamweir[client]'") from None
    from streamweir.conformance.embeddings.endpoint import evaluate_embeddings_session
    from streamweir.conformance.embeddings.plan import EMBEDDINGS_PLAN
    from streamweir.conformance.evaluate_session import evaluate_session, nearest_dialect
    from streamweir.conformance.messages.endpoint import evaluate_messages_session
    from streamweir.conformance.messages.plan import MESSAGES_PLAN
    from streamweir.conformance.plan import CHAT_PLAN
    from streamweir.conformance.responses.endpoint import evaluate_responses_session
    from streamweir.conformance.responses.plan import RESPONSES_PLAN

    if model is None:
        raise click.UsageError("checking an endpoint needs a model: add --model")
    key = key if key is not None else development_key(target)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise click.UsageError("the key contains characters that are not allowed in a key")
    plans = {
        EMBEDDINGS_API.name: (EMBEDDINGS_PLAN, evaluate_embeddings_session),
        MESSAGES_API.name: (MESSAGES_PLAN, evaluate_messages_session),
        RESPONSES_API.name: (RESPONSES_PLAN, evaluate_responses_session),
    }
    plan, evaluate = plans[api.name] if api is not None else (CHAT_PLAN, None)
    try:
        endpoint = find_endpoint(target, plan)
    except InvalidAddress as reason:
        raise click.UsageError(str(reason)) from None
    limits = ProbeLimits(requests=requests, total_s=timeout_s)
    try:
        session = asyncio.run(probe(endpoint, model, key or None, limits, _show_progress, plan))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        _clear_progress()
    if not session.has_answer:
        raise NotChecked(_why_unanswered(session))
    facts = {"target": escape_text(endpoint.shown_url), "requests": session.request_count}
    if evaluate is not None:
        return evaluate(session), None, facts
    near = nearest_dialect(session) if dialect is None else None
    return evaluate_session(session, near.dialect if near is not None else _given(dialect)), near, facts


def _show_progress(name: str) -> None:
    """Shows the current request at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r{f'asking: {name}':<40}", nl=False, err=True)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{'':<40}\r", nl=False, err=True)


def _why_unanswered(session: "ProbeSession") -> str:
    if not session.exchanges:
        return "nothing was asked"
    first = session.exchanges[0]
    if first.recording is None:
        return escape_text(first.failure or "no answer came")
    return f"the first request was answered with status {first.recording.status}: {escape_bytes(first.recording.body)}"


def _given(dialect: Dialect | None) -> Dialect:
    assert dialect is not None  # noqa: S101 (for the type checker: else the nearest was found)
    return dialect


def _read(name: str) -> bytes:
    try:
        if name == "-" and sys.stdin is None:
            data = b""
        elif name == "-":
            data = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as reason:
        raise NotChecked(f"cannot read {escape_text(name)}: {reason.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise NotChecked(f"{escape_text(name)} is larger than {_MAX_FILE_BYTES} bytes")
    return data


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as reason:
        raise NotChecked(f"cannot write {escape_text(str(path))}: {reason.strerror}") from None


def _show(report: Report, near: Nearest | None, facts: dict[str, Any], *, every_rule: bool, as_json: bool) -> None:
    if as_json:
        from streamweir.cli.view.table import show_json

        show_json({**facts, **document(report, near)})
        return
    if "requests" in facts:
        click.echo(f"{facts['requests']} requests were sent to {facts['target']}")
    if near is not None:
        click.echo(nearest_summary(near))
    if "requests" in facts or near is not None:
        click.echo()
    if sys.stdout.isatty():
        from rich.console import Console

        draw(report, Console(highlight=False), every_rule=every_rule)
        return
    for line in lines(report, every_rule=every_rule):
        click.echo(line)
