"""Every recorded case under `fixtures/<provider>/<case>`: the provider's bytes give the events of `events.txt`.

The bytes are fed whole, one by one, at random cuts and with other line ends; the events are
the same. `STREAMWEIR_UPDATE_FIXTURES=1` writes `events.txt` anew, to be read before it is kept.
"""

import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamweir.core.events import Event
from streamweir.providers.base import Provider
from streamweir.providers.registry import FAMILIES, provider_named
from streamweir.wire.amazon import EventStreamSplitter
from streamweir.wire.array import ArraySplitter
from streamweir.wire.sse import Splitter
from support.event_lines import format_events
from support.event_rules import assert_valid_events
from support.fixture_bodies import BODIES, read_body
from support.soak import part_of

STREAMS = [path for path in BODIES if path.suffix != ".json" or path.read_bytes().lstrip()[:1] != b"{"]
TEXTS = [path for path in STREAMS if path.suffix != ".frames" and b"\r" not in path.read_bytes()]
SPLITTERS = {".sse": Splitter, ".json": ArraySplitter, ".frames": EventStreamSplitter}
UPDATES = os.environ.get("STREAMWEIR_UPDATE_FIXTURES") == "1"
CUTS_PER_FIXTURE = 8


def named(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}"


def provider_of(path: Path) -> Provider:
    return provider_named(path.parent.parent.name)


def stream_events(path: Path, pieces: Iterable[bytes]) -> list[Event]:
    splitter = SPLITTERS[path.suffix]()
    decoder = provider_of(path).decoder()
    events: list[Event] = []
    for piece in pieces:
        for frame in splitter.feed(piece):
            events += decoder.feed(frame)
    for frame in splitter.finish():
        events += decoder.feed(frame)
    events += decoder.finish()
    assert not decoder.finish(), "nothing follows the terminal event"
    return events


def cut(body: bytes, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    count = rng.choice((1, 2, 3, 10, max(1, len(body) // 3)))
    places = sorted(rng.randrange(len(body) + 1) for _ in range(count))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def test_every_family_has_fixtures() -> None:
    decoders = {provider_named(kind).name for kind in FAMILIES}
    without = decoders - {path.parent.parent.name for path in BODIES}
    assert without == {"bedrock-mantle"}, "its first wire is chat completions: those of other vendors are enough"


@pytest.mark.parametrize("path", BODIES, ids=named)
def test_events_are_those_of_the_fixture(path: Path) -> None:
    body = read_body(path)
    events = stream_events(path, [body]) if path in STREAMS else list(provider_of(path).decode_whole(body))
    assert_valid_events(events)
    text = format_events(events)
    expected = path.with_name("events.txt")
    if UPDATES:
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", part_of(STREAMS, 2), ids=named)
def test_no_cut_changes_the_events(path: Path) -> None:
    body = read_body(path)
    whole = stream_events(path, [body])
    assert stream_events(path, [body[i : i + 1] for i in range(len(body))]) == whole
    for seed in range(CUTS_PER_FIXTURE):
        assert stream_events(path, cut(body, seed)) == whole, f"cut with seed {seed}"


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_line_ends_do_not_change_the_events(path: Path) -> None:
    body = path.read_bytes()
    whole = stream_events(path, [body])
    crlf = body.replace(b"\n", b"\r\n")
    assert stream_events(path, [crlf]) == whole
    assert stream_events(path, cut(crlf, 1)) == whole
    if path.suffix == ".sse":
        assert stream_events(path, [body.replace(b"\n", b"\r")]) == whole
