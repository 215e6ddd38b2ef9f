"""The engine's cost per frame, as a ratio to one untyped msgspec decode of the same frame.

Every frame is fed alone, as a stream delivers it, through the whole chain of `pipeline.exchange`:
split, decode or tap, commit gate, meter, encode. What is measured and its yardstick alternate
within one run, and the fastest of many rounds counts, so that a busy neighbour hits both.

    python -m bench.engine [--rounds N] [--json]
"""

import argparse
import json
import sys
from collections.abc import Callable
from time import perf_counter

import msgspec

from bench.amazon import chunk, chunks, converse_start, converse_text
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named

TEXT = (
    " A weir is a low wall across a river. It holds the water back a little, keeps its level steady, and lets it run"
    " over the top, where it can be measured: so much and no more, hour by hour. Boats go round it, fish climb it,"
    " and the mill below it never stands still — not even in August, when the meadows are dry."
)
WORDS = [f" {word}" for word in TEXT.split()]
WORDS_PER_FRAME = {"openai": 1, "anthropic": 3, "gemini": 18}
"""So that pieces have about the length that they have in recorded streams of the provider, and a few of them
more than ASCII."""
FRAMES = 2000

OPENAI_HEAD = (
    '"id":"chatcmpl-BKZP8Rm0Yl4ZVf8RWo2Ww4vQm8jPa","object":"chat.completion.chunk","created":1744220042,'
    '"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_44added55e"'
)


def openai_frame(delta: str) -> bytes:
    choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}'
    return f'data: {{{OPENAI_HEAD},"choices":[{choice}],"usage":null}}\n\n'.encode()


def openai_stream() -> tuple[bytes, list[bytes]]:
    start = openai_frame('{"role":"assistant","content":"","refusal":null}')
    return start, [openai_frame(f'{{"content":{quoted(word)}}}') for word in words("openai")]


def anthropic_stream() -> tuple[bytes, list[bytes]]:
    usage = '{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}'
    message = (
        '{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],'
        f'"stop_reason":null,"stop_sequence":null,"usage":{usage}}}'
    )
    start = (
        f'event: message_start\ndata: {{"type":"message_start","message":{message}}}\n\n'
        "event: content_block_start\n"
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    )
    frames = [
        "event: content_block_delta\n"
        f'data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{quoted(word)}}}}}\n\n'
        for word in words("anthropic")
    ]
    return start.encode(), [frame.encode() for frame in frames]


def responses_stream() -> tuple[bytes, list[bytes]]:
    response = (
        '{"id":"resp_Mock","object":"response","created_at":1744220042,"status":"in_progress","error":null,'
        '"model":"gpt-5.1-2026-02-11","output":[],"service_tier":"default","tools":[],"usage":null}'
    )
    item = '{"id":"msg_Mock","type":"message","status":"in_progress","content":[],"role":"assistant"}'
    start = (
        "event: response.created\n"
        f'data: {{"type":"response.created","sequence_number":0,"response":{response}}}\n\n'
        "event: response.output_item.added\n"
        f'data: {{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{item}}}\n\n'
    )
    frames = [
        "event: response.output_text.delta\n"
        f'data: {{"type":"response.output_text.delta","sequence_number":{number},"item_id":"msg_Mock",'
        f'"output_index":0,"content_index":0,"delta":{quoted(word)},"logprobs":[],"obfuscation":"4mWYHXo8jE"}}\n\n'
        for number, word in enumerate(words("openai"), start=2)
    ]
    return start.encode(), [frame.encode() for frame in frames]


def gemini_stream() -> tuple[bytes, list[bytes]]:
    def frame(text: str, tokens: int) -> bytes:
        content = f'{{"parts":[{{"text":{quoted(text)}}}],"role":"model"}}'
        details = '"promptTokensDetails":[{"modality":"TEXT","tokenCount":12}]'
        usage = f'{{"promptTokenCount":12,"candidatesTokenCount":{tokens},"totalTokenCount":{12 + tokens},{details}}}'
        tail = '"modelVersion":"gemini-2.5-flash","responseId":"uLmIaO6hFrWQ1PIPqKyA2Ac"'
        candidate = f'{{"content":{content},"index":0}}'
        return f'data: {{"candidates":[{candidate}],"usageMetadata":{usage},{tail}}}\r\n\r\n'.encode()

    return frame("Hello", 1), [frame(word, number + 2) for number, word in enumerate(words("gemini"))]


def converse_stream() -> tuple[bytes, list[bytes]]:
    return converse_start(), [converse_text(quoted(word).encode()) for word in words("anthropic")]


def invoke_stream() -> tuple[bytes, list[bytes]]:
    """Anthropic's, each event in a frame of Amazon's."""
    start, frames = anthropic_stream()
    before = [document_of(frame) for frame in start.split(b"\n\n") if frame]
    return chunks(before), [chunk(document_of(frame)) for frame in frames]


def words(provider: str) -> list[str]:
    count = WORDS_PER_FRAME[provider]
    return ["".join(WORDS[(number + place) % len(WORDS)] for place in range(count)) for number in range(FRAMES)]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def document_of(frame: bytes) -> bytes:
    if frame[:1] == b"\0":  # one of Amazon's: headers, document, checksum
        return frame[frame.index(b"{") : -4]
    return frame[frame.index(b"data: ") + 6 :].strip()


def exchange_of(source: str, mode: Mode, dialect: str) -> Exchange:
    reply = Reply(
        id="chatcmpl-ours", now=lambda: 1744220042, model="openai/gpt-4o-mini", include_usage=mode is Mode.PASS
    )
    return Exchange(provider_named(source), FRONTENDS.by_name[dialect], reply, mode, Meter())


CASES: list[tuple[str, str, Mode, str, Callable[[], tuple[bytes, list[bytes]]], float | None]] = [
    ("openai, passed", "openai", Mode.PASS, "openai", openai_stream, 2),
    ("openai, filtered", "openai", Mode.FILTER, "openai", openai_stream, None),
    ("openai to openai", "openai", Mode.TRANSLATE, "openai", openai_stream, 6),
    ("openai to opentoken", "openai", Mode.TRANSLATE, "opentoken", openai_stream, None),
    ("openai to aivene", "openai", Mode.TRANSLATE, "aivene", openai_stream, None),
    ("openai to bitseek", "openai", Mode.TRANSLATE, "bitseek", openai_stream, None),
    ("anthropic to openai", "anthropic", Mode.TRANSLATE, "openai", anthropic_stream, 8),
    ("gemini to openai", "gemini", Mode.TRANSLATE, "openai", gemini_stream, 8),
    ("converse to openai", "bedrock", Mode.TRANSLATE, "openai", converse_stream, None),
    ("invoke to messages", "bedrock-messages", Mode.PASS, "messages", invoke_stream, None),
]


def measure(rounds: int) -> list[dict[str, object]]:
    prepared = [(case, *case[4]()) for case in CASES]
    best: dict[str, list[float]] = {case[0]: [float("inf")] * 2 for case in CASES}
    decode = msgspec.json.Decoder().decode
    for _ in range(rounds):
        for (name, source, mode, dialect, _, _), start, frames in prepared:
            documents = [document_of(frame) for frame in frames]
            began = perf_counter()
            for document in documents:
                decode(document)
            yardstick = perf_counter() - began
            exchange = exchange_of(source, mode, dialect)
            exchange.feed(start)
            feed = exchange.feed
            began = perf_counter()
            for frame in frames:
                feed(frame)
            spent = perf_counter() - began
            if exchange.passes is not (mode is not Mode.TRANSLATE):
                raise RuntimeError(f"{name}: the stream did not go the way that was to be measured")
            best[name] = [min(best[name][0], yardstick), min(best[name][1], spent)]
    return [
        {
            "case": case[0],
            "decode_us": best[case[0]][0] / FRAMES * 1e6,
            "frame_us": best[case[0]][1] / FRAMES * 1e6,
            "ratio": best[case[0]][1] / best[case[0]][0],
            "at_most": case[5],
        }
        for case in CASES
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    rows = measure(chosen.rounds)
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    write = sys.stdout.write
    write("The engine's cost per frame, in untyped msgspec decodes of the same frame (same run, fastest round)\n\n")
    write(f"{'':22}{'one decode':>12}{'one frame':>12}{'ratio':>8}{'at most':>9}\n")
    for row in rows:
        limit = "" if row["at_most"] is None else f"{row['at_most']:.0f}"
        write(f"{row['case']:22}{row['decode_us']:>9.2f} us{row['frame_us']:>9.2f} us{row['ratio']:>8.2f}{limit:>9}\n")


if __name__ == "__main__":
    main()
