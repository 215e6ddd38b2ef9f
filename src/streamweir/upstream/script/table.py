"""The scripts by name, and `play`, which executes the script of a request.

The model's name selects the script; its parameters follow a `?`. An invalid request gets an error response as from a
provider: a status, and a message that lists the valid names.
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
from streamweir.upstream.script.delivery import Delivery, ScriptedAnswer
from streamweir.upstream.script.deltas import TokenTally, count_tokens
from streamweir.upstream.script.embed import play_embeddings
from streamweir.upstream.script.parameter import read_options, refused, shown
from streamweir.upstream.script.step import END, Action, Head, Step, timed
from streamweir.wire import jsonio


class Script(Struct, frozen=True, kw_only=True):
    make_answer: answer.Answer = answer.lorem
    deliver: Delivery = delivery.complete
    parameters: tuple[str, ...] = ()
    """Its own parameters, besides `parameter.COMMON`."""
    defaults: dict[str, Any] = {}
    is_endless: bool = False


SCRIPTS: dict[str, Script] = {
    "hello": Script(make_answer=answer.hello),
    "echo": Script(make_answer=answer.echo),
    "lorem": Script(parameters=("words",)),
    "tools": Script(make_answer=answer.tools, parameters=("calls",)),
    "agent": Script(make_answer=agent, parameters=("calls",), defaults={"calls": 1}),
    "reasoning": Script(make_answer=answer.reasoning),
    "refusal": Script(make_answer=answer.refusal),
    "json": Script(make_answer=answer.json),
    "error": Script(deliver=delivery.error, parameters=("status", "code", "retry_after", "at")),
    "cut": Script(deliver=delivery.cut, parameters=("at", "how"), defaults={"at": 3}),
    "stall": Script(deliver=delivery.stall, parameters=("at",), defaults={"at": 3}),
    "slow-start": Script(make_answer=answer.hello, defaults={"first_ms": 3000}),
    "empty": Script(deliver=delivery.empty),
    "html": Script(deliver=delivery.html),
    "redirect": Script(deliver=delivery.redirect),
    "garbage": Script(deliver=delivery.garbage, parameters=("at",), defaults={"at": 3}),
    "huge-frame": Script(deliver=delivery.huge_frame, parameters=("at", "bytes"), defaults={"at": 3}),
    "endless": Script(make_answer=answer.endless, deliver=delivery.endless, defaults={"pace_ms": 10}, is_endless=True),
}

MODELS = ("hello", "echo", "lorem", "tools", "agent", "reasoning", "refusal", "json")
"""The scripts that answer without failures; only these are listed as models."""


def play(body: bytes, *, created: int, entropy: bytes, path: str = "/chat/completions") -> Iterator[Step]:
    """The steps of the answer to the body of a request. `entropy`: the bytes from which its ids are made.

    The request is parsed before this function returns; the answer is made during the iteration.
    """
    try:
        members = _members(body)
        if path == "/embeddings":
            return play_embeddings(members)
        script, scripted = _read(members, created, IdFormat.CHATCMPL.make(entropy))
    except CallerError as error:
        return timed(_refusal(error), 0.0, 0.0)
    return timed(script.deliver(scripted), scripted.options.first_ms / 1000, scripted.options.pace_ms / 1000)


def _members(body: bytes) -> dict[str, Any]:
    try:
        members = jsonio.decode(body)
    except jsonio.InvalidJson as reason:
        raise CallerError("invalid_json", "The request body is not valid JSON.") from reason
    if not isinstance(members, dict):
        raise CallerError("invalid_json", "The request body must be a JSON object.")
    return members


def _read(members: dict[str, Any], created: int, completion_id: str) -> tuple[Script, ScriptedAnswer]:
    model = members.pop("model", None)  # validated here: the target of an alias may be longer than a caller's name
    name, _, query = model.partition("?") if isinstance(model, str) else ("", "", "")
    script = SCRIPTS.get(name)
    if script is None:
        example = "lorem?words=20&pace_ms=50"
        known = ", ".join(SCRIPTS)
        raise refused(f"The simulator has no script {shown(name)}. It has: {known}. With parameters: {example}.")
    options = read_options(query, name, script.parameters, script.defaults)
    chat = read_request(members, RequestRules(model_required=False))
    tally = TokenTally(sum(count_tokens(text_of(message)) for message in chat.messages))
    writer = ChunkWriter(
        id=completion_id,
        created=created,
        model=name,
        usage=options.usage,
        include_usage=chat.include_usage,
        tally=tally,
    )
    return script, ScriptedAnswer(chat, options, completion_id, writer, tally, script.make_answer, script.is_endless)


def _refusal(error: CallerError) -> Iterator[Action]:
    yield Head(error.spec.status, {"content-type": "application/json"})
    yield write_error(error.spec.status, error.message, error.code, error.param)
    yield END
