"""A scripted server whose stream can be resumed, as docs/streams.md describes: it sends what a client asks for.

    answer = ResumableAnswer(frames, cuts=(10, 0, 57))
    async with ScriptedUpstream(answer.script) as up: ...

Each connection is cut behind so many bytes of its body; the one after the last cut gets the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from support.script import End, Fields, Fin, Head, Rst, Seen, Send, Step

STREAM_ID = "strm_Scripted1"
NAMED: Fields = (("x-streamweir-stream", STREAM_ID),)
COMMENT = b": keep-alive\n"


@dataclass
class ResumableAnswer:
    events: Sequence[bytes]
    """Each is one event."""
    cuts: Sequence[int] = ()
    resets: bool = False
    """Connections are reset, not closed."""
    asked: list[int] = field(default_factory=list)
    """What clients have asked for: `after` of each, 0 for the first."""
    deleted: int = 0

    def script(self, request: Seen) -> list[Step]:
        parts = urlsplit(request.path)
        if request.method == "DELETE":
            assert parts.path.endswith(f"/streams/{STREAM_ID}"), request.path
            self.deleted += 1
            return [Head(204, None, framing=0), End()]
        after = 0
        if request.method == "GET":
            assert parts.path.endswith(f"/streams/{STREAM_ID}"), request.path
            after = int(parse_qs(parts.query)["after"][0])
        number = len(self.asked)
        self.asked.append(after)
        body = COMMENT + b"".join(self.events[after:])
        if number < len(self.cuts):
            cut: Step = Rst() if self.resets else Fin()
            return [Head(headers=NAMED, framing="close"), Send(body[: self.cuts[number]]), cut]
        return [Head(headers=NAMED), Send(body), End()]
