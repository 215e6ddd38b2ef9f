"""Every step has the one shape: the annotations below are checked by mypy, the calls by running them."""

from streamweir.core.events import Event
from streamweir.core.stage import Stage
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.encoder import Encoder
from streamweir.frontends.chat.table import DIALECTS
from streamweir.pipeline.commit import CommitGate
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.meter import Meter
from streamweir.providers.registry import provider_named
from streamweir.wire.array import ArraySplitter
from streamweir.wire.body import BodySplitter
from streamweir.wire.sse import Frame, Splitter


def test_every_step_can_be_finished_before_it_was_fed() -> None:
    providers = [provider_named(name) for name in ("openai", "azure", "anthropic", "gemini")]
    splitters: list[Stage[bytes, Frame]] = [Splitter(), ArraySplitter(), BodySplitter()]
    decoders: list[Stage[Frame, Event]] = [provider.decoder() for provider in providers]
    intakes: list[Stage[bytes, Event]] = [Intake(provider) for provider in providers]
    gates: list[Stage[Event, Event]] = [CommitGate(), Meter()]
    encoders: list[Stage[Event, bytes]] = [
        Encoder(dialect, Reply(id="chatcmpl-1", now=lambda: 0)) for dialect in DIALECTS.values()
    ]
    for splitter in splitters:
        assert all(not frame.raw for frame in splitter.finish())
    ends = [*(decoder.finish() for decoder in decoders), *(intake.finish() for intake in intakes)]
    assert [[type(event).__name__ for event in end] for end in ends] == [["StreamFailed"]] * len(ends)
    for gate in gates:
        assert list(gate.finish()) == []
    for encoder in encoders:
        assert list(encoder.finish()) == []
