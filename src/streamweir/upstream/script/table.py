"""The scripts by name, and `play`, which finds the one that a request asks for and plays it.

The model's name decides: a script, and after a `?` its parameters. A request that cannot be played
is answered as a provider would: with a status, and a message that says what there is to choose from.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.core.request import RequestRules, read_request
from streamweir.frontends.chat.dialect import IdFormat
from streamweir.upstream.script import answer, delivery
from streamweir.upstream.script.agent import agent
from streamweir.upstream.script.chunk import ChunkWriter, write_error
from streamweir.upstream.script.conversation import text_of
from streamweir.upstream.script.delivery import Performance, ScriptedAnswer
from streamweir.upstream.script.deltas import TokenTally, count_tokens
from streamweir.upstream.script.parameter import read_options, refused, shown
from streamweir.upstream.script.step import END, Head, Step, What, timed
from streamweir.wire import jsonio


class Script(Struct, frozen=True, kw_only=True):
    says: answer.Answer = answer.lorem
    performs: Performance = delivery.complete
    takes: tuple[str, ...] = ()
    """Its own parameters, besides `parameter.COMMON`."""
    defaults: dict[str, Any] = {}
    is_endless: bool = False


SCRIPTS: dict[str, Script] = {
    "hello": Script(says=answer.hello),
    "echo": Script(says=answer.echo),
    "lorem": Script(takes=("words",)),
    "tools": Script(says=answer.tools, takes=("calls",)),
    "agent": Script(says=agent, takes=("calls",), defaults={"calls": 1}),
    "reasoning": Script(says=answer.reasoning),
    "refusal": Script(says=answer.refusal),
    "json": Script(says=answer.json),
    "error": Script(performs=delivery.error, takes=("status", "code", "retry_after", "at")),
    "cut": Script(performs=delivery.cut, takes=("at", "how"), defaults={"at": 3}),
    "stall": Script(performs=delivery.stall, takes=("at",), defaults={"at": 3}),
    "slow-start": Script(says=answer.hello, defaults={"first_ms": 3000}),
    "empty": Script(performs=delivery.empty),
    "html": Script(performs=delivery.html),
    "redirect": Script(performs=delivery.redirect),
    "garbage": Script(performs=delivery.garbage, takes=("at",), defaults={"at": 3}),
    "huge-frame": Script(performs=delivery.huge_frame, takes=("at", "bytes"), defaults={"at": 3}),
    "endless": Script(says=answer.endless, performs=delivery.endless, defaults={"pace_ms": 10}, is_endless=True),
}

MODELS = ("hello", "echo", "lorem", "tools", "agent", "reasoning", "refusal", "json")
"""The scripts that answer well: the models that are listed."""


def play(body: bytes, *, created: int, entropy: bytes) -> Iterator[Step]:
    """The answer to a chat completion's body, step by step; `entropy` is what its ids are made of.

    The request is read before this returns, the answer is made while it is taken.
    """
    try:
        script, cast = _read(body, created, IdFormat.CHATCMPL.make(entropy))
    except CallerError as error:
        return timed(_refusal(error), 0.0, 0.0)
    return timed(script.performs(cast), cast.options.first_ms / 1000, cast.options.pace_ms / 1000)


def _read(body: bytes, created: int, completion_id: str) -> tuple[Script, ScriptedAnswer]:
    try:
        members = jsonio.decode(body)
    except jsonio.InvalidJson as reason:
        raise CallerError("invalid_json", "The request body is not valid JSON.") from reason
    if not isinstance(members, dict):
        raise CallerError("invalid_json", "The request body must be a JSON object.")
    model = members.pop("model", None)  # it may be longer than a caller's: an alias can stand for it
    name, _, query = model.partition("?") if isinstance(model, str) else ("", "", "")
    script = SCRIPTS.get(name)
    if script is None:
        example = "lorem?words=20&pace_ms=50"
        known = ", ".join(SCRIPTS)
        raise refused(f"The simulator has no script {shown(name)}. It has: {known}. With parameters: {example}.")
    options = read_options(query, name, script.takes, script.defaults)
    chat = read_request(members, RequestRules(model_required=False))
    tally = TokenTally(sum(count_tokens(text_of(message)) for message in chat.messages))
    writer = ChunkWriter(
        id=completion_id,
        created=created,
        model=name,
        usage=options.usage,
        is_asked=chat.include_usage,
        tally=tally,
    )
    return script, ScriptedAnswer(chat, options, completion_id, writer, tally, script.says, script.is_endless)


def _refusal(error: CallerError) -> Iterator[What]:
    yield Head(error.spec.status, {"content-type": "application/json"})
    yield write_error(error.spec.status, error.message, error.code, error.param)
    yield END
