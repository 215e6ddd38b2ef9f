"""What the mock provider of `bench.lockstep` sends: the frames of `bench.engine`, each text marked, and an end to them.

The same wires as the mock in C has (`wire.c`): OpenAI's own, one of its kind whose ids and models must
be written anew, its Responses, Anthropic's, Gemini's, and Bedrock's two. A caller counts the marks to know what has
come through.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.amazon import chunks, converse_end, converse_start, converse_text
from bench.engine import anthropic_stream, document_of, gemini_stream, openai_stream, quoted, responses_stream, words

MARK = b"~"
"""In each text, and nowhere else."""
MOST_TEXTS = 500
AMAZON = b"application/vnd.amazon.eventstream"


@dataclass(frozen=True)
class Wire:
    path: str
    """What the paths of its requests have in them."""
    start: bytes
    """What goes before the first text."""
    texts: Sequence[bytes]
    end: bytes
    media: bytes = b"text/event-stream"


def wires() -> list[Wire]:
    """The first of them whose path fits is meant."""
    start, frames = openai_stream()
    own = Wire("", start, _marked(frames, b'"content":"'), _openai_end(start))
    message, deltas = anthropic_stream()
    first, candidates = gemini_stream()
    created, pieces = responses_stream()
    marked = _marked(deltas, b'"text":"')
    return [
        Wire("/converse-stream", converse_start(), _converse_texts(), converse_end(), AMAZON),
        Wire(
            "/invoke-with",
            _in_frames(message),
            [_in_frames(frame) for frame in marked],
            _in_frames(_ANTHROPIC_END),
            AMAZON,
        ),
        Wire("/messages", message, marked, _ANTHROPIC_END),
        Wire("/responses", created, _marked(pieces, b'"delta":"'), _RESPONSES_END),
        Wire("GenerateContent", first, _marked(candidates, b'"text":"'), _gemini_end(first)),
        Wire("/foreign/", _foreign(own.start), [_foreign(text) for text in own.texts], _foreign(own.end)),
        own,
    ]


_ANTHROPIC_END = b"""\
event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

"""


_RESPONSES_END = b"""\
event: response.completed
data: {"type":"response.completed","sequence_number":999,"response":{"id":"resp_Mock","object":"response",\
"created_at":1744220042,"status":"completed","error":null,"model":"gpt-5.1-2026-02-11","output":[],\
"service_tier":"default","tools":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},\
"output_tokens":9,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}}}

"""


def _converse_texts() -> list[bytes]:
    return [converse_text(quoted(MARK.decode() + word).encode()) for word in words("anthropic")[:MOST_TEXTS]]


def _in_frames(events: bytes) -> bytes:
    return chunks([document_of(event) for event in events.split(b"\n\n") if event])


def _openai_end(start: bytes) -> bytes:
    """Finish, usage and sentinel, with the head that its first frame has."""
    head = start[: start.index(b',"choices"')]
    finish = b'[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null'
    usage = b'[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}'
    frames = [b'%b,"choices":%b}\n\n' % (head, rest) for rest in (finish, usage)]
    return b"".join([*frames, b"data: [DONE]\n\n"])


def _gemini_end(first: bytes) -> bytes:
    return first.replace(b'"index":0', b'"finishReason":"STOP","index":0')


def _foreign(frames: bytes) -> bytes:
    """Neither an id of OpenAI's form nor a model."""
    return frames.replace(b'"id":"chatcmpl-', b'"id":"mock-').replace(
        b'"model":"gpt-4o-mini-2024-07-18"', b'"model":""'
    )


def _marked(frames: Sequence[bytes], before: bytes) -> list[bytes]:
    return [frame.replace(before, before + MARK, 1) for frame in frames[:MOST_TEXTS]]


WHOLE = (
    b'{"id":"chatcmpl-BKZP8Rm0Yl4ZVf8RWo2Ww4vQm8jPa","object":"chat.completion","created":1744220042,'
    b'"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"A weir is a low wall across a river.","refusal":null,"annotations":[]},"logprobs":null,'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18},'
    b'"service_tier":"default","system_fingerprint":"fp_44added55e"}'
)
"""An answer in one piece, on OpenAI's wire."""
