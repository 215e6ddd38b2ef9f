"""`streamweir replay`: converts a recorded upstream body into exactly the bytes that a caller would get.

It uses the same pipeline as the gateway, with a file instead of a socket. The id and the time come from the options,
else from the recording, else from its hash and 0, so that the result is reproducible.
Exit status: 0 complete answer, 3 failed answer, 2 wrong usage.
"""

import hashlib
import sys
from pathlib import Path
from typing import NoReturn

import click

from streamweir.core.events import Event, StreamFailed, StreamStarted
from streamweir.frontends.base import Frontend, Reply
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import plan
from streamweir.providers.base import Provider
from streamweir.providers.registry import native_wire, provider_named, provider_names

FAILED = 3
_OWN_WIRES = {"responses": "openai-responses"}
"""Other names of providers: an API, and the vendor whose own it is."""


class WrongUse(Exception):
    """Invalid arguments. The text is shown to the user."""


@click.command("replay", short_help="Convert a recorded upstream body into a caller's bytes.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "source",
    required=True,
    metavar="PROVIDER",
    help="Provider of the recording: openai, anthropic, gemini or a vendor; responses for OpenAI's Responses API.",
)
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice([*sorted(DIALECTS), *(name for name in FRONTENDS.by_name if name not in DIALECTS)]),
    help="API of the output: a dialect of chat completions, messages, or responses.",
)
@click.option("--model", metavar="M", help="The model as the caller named it.")
@click.option("--usage", is_flag=True, help="The caller requested usage (stream_options.include_usage).")
@click.option("--buffered", is_flag=True, help="The caller requested a whole answer.")
@click.option("--id", "completion_id", metavar="ID", help="The id of the answer.")
@click.option("--created", type=int, metavar="T", help="The time in the chunks, in Unix seconds.")
def command(
    file: Path,
    source: str,
    target: str,
    model: str | None,
    usage: bool,
    buffered: bool,
    completion_id: str | None,
    created: int | None,
) -> NoReturn:
    """Convert FILE, a recorded upstream body, into the bytes that a caller would get.

    FILE is an event stream, Amazon Bedrock's binary one too, Gemini's JSON array, or a whole JSON
    answer. If it reports no usage and the caller gets some, the tokens of the answer are estimated;
    the prompt is not recorded and counts as 0.

    --from responses is OpenAI's Responses API, --from VENDOR-responses that of another vendor. A
    further wire of a cloud is named as KIND-WIRE: bedrock is Converse, bedrock-messages Claude.

    A recording of the Messages API (--from anthropic) to messages, and one of the Responses API to
    responses, is passed on as it is, unless --id or --created is given. Their usage is always there.

    Exit status: 0 complete answer, 2 wrong usage, 3 failed answer (the output ends in the API's error).
    """
    try:
        data = file.read_bytes()
    except OSError as reason:
        raise click.UsageError(f"cannot read {file}: {reason.strerror}") from reason
    try:
        out, completed = replay(
            data,
            source=source,
            target=target,
            model=model,
            usage=usage,
            buffered=buffered,
            id=completion_id,
            created=created,
        )
    except WrongUse as reason:
        raise click.UsageError(str(reason)) from reason
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    sys.exit(0 if completed else FAILED)


def replay(
    data: bytes,
    *,
    source: str,
    target: str,
    model: str | None = None,
    usage: bool = False,
    buffered: bool = False,
    id: str | None = None,
    created: int | None = None,
) -> tuple[bytes, bool]:
    """The caller's bytes, and whether the upstream's answer completed. `target`: a name of `FRONTENDS`."""
    source = _OWN_WIRES.get(source, source)
    try:
        provider = provider_named(source)
    except KeyError:
        names = sorted([*provider_names(), *_OWN_WIRES])
        raise WrongUse(f"unknown provider {source!r}; use one of {', '.join(names)}") from None
    if buffered and target in DIALECTS and DIALECTS[target].whole_object is None:
        raise WrongUse(f"{target} always streams: it has no buffered answer")
    frontend = FRONTENDS.by_name[target]
    reply = _reply(data, provider, frontend, model, usage, id, created)
    mode = plan(native_wire(source), frontend, reply)
    if buffered:
        whole = WholeExchange(provider, frontend, reply, mode, Meter())
        out = whole.feed(data) + whole.finish()
        return (out, True) if whole.failure is None else (frontend.write_error(whole.failure).body, False)
    meter = Meter()
    exchange = Exchange(provider, frontend, reply, mode, meter)
    out = exchange.feed(data) + exchange.finish()
    if exchange.failure is not None:  # nothing was sent yet: the gateway would answer with a status instead
        out = b"".join(frontend.encoder(reply).feed(StreamFailed(exchange.failure)))
    return out, meter.record.completed


def _reply(
    data: bytes,
    provider: Provider,
    frontend: Frontend,
    model: str | None,
    usage: bool,
    id: str | None,
    created: int | None,
) -> Reply:
    started = next((event for event in _events(provider, data) if isinstance(event, StreamStarted)), StreamStarted())
    time = created if created is not None else started.created or 0
    return Reply(
        id=id if id is not None else frontend.make_id(hashlib.sha256(data).digest()),
        pinned=id is not None,
        created=created,
        now=lambda: time,
        model=model,
        target_model=started.model or "",
        include_usage=usage,
    )


def _events(provider: Provider, data: bytes) -> list[Event]:
    intake = Intake(provider)
    return [*intake.feed(data), *intake.finish()]
