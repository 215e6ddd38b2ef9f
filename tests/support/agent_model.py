"""A scripted model for coding agents: reasoning, calls of the agent's own tools, and a final text.

    model = AgentModel(WIRES["openai"], workspace)
    async with ScriptedUpstream(model.script) as upstream:
        ...                       # an agent uses it, directly or through the gateway
    assert model.task_requests[1].results[0].text ...

The task has three turns: reasoning and one call, reasoning and two parallel calls, a text. Which one is sent depends
on the tool results in the request alone, so a request that is repeated gets the same answer. The tools are those of the
request (`support.agent_tools`): without them the script fails. Requests without tools get a title, requests to compact
the conversation a summary. `support.agent_wires` has the wires.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.agent_tools import can_write, read_call, write_call
from support.agent_turn import AnswerId, Fault, ModelRequest, TokenCounts, Turn, Wire
from support.script import End, Fin, Head, Seen, Send, Step, whole

FILE = "poem.txt"
POEM = "The weir holds the stream, and lets it go.\n"
COPY = "copy.txt"
REASONING = ("The user wants a poem in a file. ", "I shall write one line.")
SECOND_REASONING = ("The file is there. ", "Now I read it and write its copy, both at once.")
FINAL_TEXT = ("Both files are ", "written: the poem ", "and its copy.")
TITLE = "A poem in a file"
SUMMARY_REQUESTS = ("a detailed summary of the conversation", "CONTEXT CHECKPOINT COMPACTION")
"""Words of Claude Code, and of Codex, when they compact a conversation."""
SUMMARY = "<analysis>The file was written.</analysis>\n<summary>The user wants a poem in a file.</summary>"
MOST_REQUESTS = 40
"""Three, and those that an agent repeats."""


TURN_TOKENS = (
    TokenCounts(prompt=1000, cached=0, completion=40, reasoning=11),
    TokenCounts(prompt=1100, cached=900, completion=60, reasoning=13),
    TokenCounts(prompt=1300, cached=1100, completion=9),
)
"""By the turns of the task."""
TITLE_TOKENS = TokenCounts(prompt=20, cached=0, completion=5)


@dataclass(eq=False)
class AgentModel:
    wire: Wire
    workspace: Path
    faults: list[Fault] = field(default_factory=list)
    """Used one by one, for requests of the turn `fault_turn`."""
    fault: Fault | None = None
    """Used when there are no more `faults`."""
    fault_turn: int = 0

    raw_requests: list[Seen] = field(default_factory=list, init=False)
    """All requests for turns of the task, repeated ones too."""
    task_requests: list[ModelRequest] = field(default_factory=list, init=False)
    """The same, parsed."""
    requests_without_tools: list[ModelRequest] = field(default_factory=list, init=False)
    summary_requests: list[ModelRequest] = field(default_factory=list, init=False)
    other_requests: list[Seen] = field(default_factory=list, init=False)
    """For models and token counts."""

    def script(self, raw: Seen) -> Sequence[Step]:
        path = raw.path.partition("?")[0]
        if raw.method != "POST" or path.endswith("/count_tokens"):
            self.other_requests.append(raw)
            return _answer_other(raw, path)
        request = self.wire.read(raw)
        if request.texts and any(words in request.texts[-1] for words in SUMMARY_REQUESTS):
            self.summary_requests.append(request)
            return self._steps(request, Turn(texts=(SUMMARY,)), TITLE_TOKENS, raw.number, None)
        if not can_write(request):
            self.requests_without_tools.append(request)
            title = json.dumps({"title": TITLE}) if request.wants_json else TITLE
            return self._steps(request, Turn(texts=(title,)), TITLE_TOKENS, raw.number, None)
        self.raw_requests.append(raw)
        self.task_requests.append(request)
        if len(self.task_requests) > MOST_REQUESTS:
            raise AssertionError(f"the agent does not come to an end: {request.results}")
        number = (len(request.results) + 1) // 2  # of no result, one result, three results
        fault = (self.faults.pop(0) if self.faults else self.fault) if number == self.fault_turn else None
        return self._steps(request, self.turn(request, number), TURN_TOKENS[number], raw.number, fault)

    def signature_of(self, reasoning: Sequence[str]) -> str:
        return base64.b64encode(f"signed: {reasoning[0]}".encode()).decode()

    def _steps(
        self, request: ModelRequest, turn: Turn, tokens: TokenCounts, number: int, fault: Fault | None
    ) -> Sequence[Step]:
        answer_id = AnswerId(request.model, number)
        frames = self.wire.frames(turn, tokens, answer_id)
        if fault is not None:
            return fault(self.wire, frames)
        if request.is_streamed:
            return [Head(), *(Send(frame) for frame in frames), End()]
        return whole(self.wire.whole(turn, tokens, answer_id))

    def turn(self, request: ModelRequest, number: int) -> Turn:
        poem, copy = str(self.workspace / FILE), str(self.workspace / COPY)
        if number == 0:
            write = write_call(request, 1, poem, POEM)
            return Turn(REASONING, self.signature_of(REASONING), calls=(write,))
        if number == 1:
            both = (read_call(request, 2, poem), write_call(request, 3, copy, POEM))
            return Turn(SECOND_REASONING, self.signature_of(SECOND_REASONING), calls=both)
        return Turn(texts=FINAL_TEXT)


def _answer_other(raw: Seen, path: str) -> Sequence[Step]:
    if raw.method == "HEAD":
        return [Head(200, None, framing=0), End()]
    if "upgrade" in raw.headers:
        return whole(b'{"error":{"message":"There are no WebSockets here."}}', 426, [("upgrade", "HTTP/1.1")])
    if path.endswith("/count_tokens"):
        return whole(b'{"input_tokens":1000}')
    if path.endswith("/models"):
        return whole(b'{"data":[],"has_more":false,"first_id":null,"last_id":null}')
    return whole(b'{"type":"error","error":{"type":"not_found_error","message":"Not found"}}', 404)


def error_response(status: int, *headers: tuple[str, str]) -> Fault:

    def play(wire: Wire, _: Sequence[bytes]) -> Sequence[Step]:
        return whole(wire.error(status, f"The script answers {status}."), status, headers)

    return play


def context_exceeded(wire: Wire, _: Sequence[bytes]) -> Sequence[Step]:
    return whole(wire.context_error(), 400)


def cut_after(text: str) -> Fault:
    """The connection is closed after the first frame with this text."""

    def play(_: Wire, frames: Sequence[bytes]) -> Sequence[Step]:
        last = next(number for number, frame in enumerate(frames) if text.encode() in frame)
        return [Head(), *(Send(frame) for frame in frames[: last + 1]), Fin()]

    return play
