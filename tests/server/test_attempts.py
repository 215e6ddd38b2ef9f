"""How often, and for how long, targets are tried: where two rules meet."""

import asyncio
from collections.abc import Sequence

import pytest

from support.answers import TEXTS, error_body, openai_frames, openai_stream, openai_whole
from support.gateway import chat_request, frames_of, gateway, gateway_to, providers, text_of
from support.outcome import assert_broken
from support.script import End, Hang, Head, Seen, Send, Step, Wait, stream, whole
from support.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

REFUSED = whole(
    error_body("Unknown parameter: 'stream_options'.", "invalid_request_error", param="stream_options"), 400
)
FAILED = whole(error_body("boom"), 500)


async def test_a_repaired_request_is_no_extra_attempt_and_allows_no_more() -> None:
    def script(seen: Seen) -> Sequence[Step]:
        return REFUSED if seen.number == 2 else FAILED

    async with gateway_to(script) as (gate, up):
        assert (await gate.ask(model="up/m", stream=True)).status == 502
        (record,) = await gate.settled()
        assert [attempt.error for attempt in record.attempts] == [
            "upstream_server_error",
            "upstream_server_error",
            "invalid_value",
            "upstream_server_error",
        ]
        assert len(up.requests) == 4


async def test_the_last_attempt_that_is_allowed_has_all_the_time() -> None:
    """Of four targets three may be tried: the short patience of the third would help nobody."""
    begin = asyncio.Event()
    third: list[Step] = [Head(), Wait(begin), Send(openai_stream()), End()]
    async with (
        ScriptedUpstream([Head(), Hang()]) as first,
        ScriptedUpstream([Head(), Hang()]) as second,
        ScriptedUpstream(third) as slow,
        ScriptedUpstream(stream(openai_stream())) as fourth,
    ):
        upstreams = {"a": first, "b": second, "c": slow, "d": fourth}
        toml = "".join(
            f"{providers(**{name: upstream.base_url})}timeouts = {{ first_event_s = 0.05 }}\n"
            for name, upstream in upstreams.items()
        )
        targets = ", ".join(f'{{ provider = "{name}", model = "m" }}' for name in upstreams)
        toml += f'[[models]]\nid = "any"\ntargets = [{targets}]\n'
        async with gateway(toml) as gate, await gate.connect() as client:
            await client.send(chat_request(model="any", stream=True))
            await slow.seen(1)
            patience = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.2, patience.set_result, None)  # four times the short patience
            await patience
            begin.set()
            assert (await client.response()).status == 200
            (record,) = await gate.settled()
            assert [attempt.error for attempt in record.attempts] == ["upstream_timeout", "upstream_timeout", None]
            assert len(fourth.requests) == 0


@pytest.mark.parametrize("comment", [b": ping\n", b": ping\n\n"], ids=["in one block", "each a block"])
async def test_comments_keep_no_stalled_stream_open(comment: bytes) -> None:
    stalled: list[Step] = [Head(), Send(b"".join(openai_frames()[:2])), *[Send(comment)] * 3, Hang()]
    async with gateway_to(stalled, "[server.timeouts]\nidle_s = 0.1\nsilence_s = 0.02") as (gate, up):
        await gate.ask(model="up/m", stream=True)
        (record,) = await gate.settled()
        assert record.error == "stream_idle_timeout"
        await up.vacated()


@pytest.mark.parametrize("has_usage", [True, False])
@pytest.mark.parametrize("usage", [True, False], ids=["passed", "filtered"])
async def test_done_without_a_finish_completes_an_answer_whose_usage_came_behind_it(
    has_usage: bool, usage: bool
) -> None:
    """docs/spec/quirks.md Q41."""
    frames = openai_frames(finish=None)
    script = stream(b"".join(frames if has_usage else [*frames[:-2], frames[-1]]))
    async with gateway_to(script) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True, stream_options={"include_usage": usage})
        (record,) = await gate.settled()
        assert text_of(reply.body) == "".join(TEXTS)
        if has_usage:
            assert frames_of(reply.body)[-1] == "[DONE]"
            assert b'"finish_reason":"stop"' in reply.body
            assert (record.verdict, record.flags) == ("completed", ("finish_inferred",))
        else:
            assert_broken(reply, "upstream_stream_truncated", text="".join(TEXTS))
            assert (record.verdict, record.flags) == ("truncated", ())


FINISHED = {
    "passed": openai_frames()[:-2],
    "translated": [frame.replace(b'"object":"chat.completion.chunk",', b"") for frame in openai_frames()[:-2]],
    "empty": [openai_frames()[0], openai_frames()[-3]],
}


@pytest.mark.parametrize("sent", FINISHED.values(), ids=FINISHED)
async def test_silence_after_the_finish_is_the_end_whichever_timer_notices_it(sent: list[bytes]) -> None:
    """docs/spec/quirks.md Q45."""
    script: list[Step] = [Head(), Send(b"".join(sent)), Hang()]
    async with gateway_to(script, "[server.timeouts]\nidle_s = 0.05\nsilence_s = 0.2") as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert reply.body.endswith(b"data: [DONE]\n\n")
        (record,) = await gate.settled()
        assert (record.verdict, record.error, record.flags) == ("completed", None, ("missing_done",))
        await up.vacated()


async def test_comments_after_the_finish_do_not_keep_the_answer_open() -> None:
    finished = b"".join(openai_frames()[:-2])
    script: list[Step] = [Head(), Send(finished), *[Send(b": ping\n\n")] * 3, Hang()]
    async with gateway_to(script, "[server.timeouts]\nidle_s = 0.05\nsilence_s = 0.2") as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert (await gate.settled())[0].verdict == "completed"
        await up.vacated()


async def test_comments_without_end_are_no_answer() -> None:
    begun = b"".join(openai_frames()[:2])
    script: list[Step] = [Head(), Send(begun), *[Send(b":\n\n" * 20_000)] * 50, Hang()]
    async with gateway_to(script, "[server.timeouts]\nidle_s = 600") as (gate, up):
        await gate.ask(model="up/m", stream=True)
        (record,) = await gate.settled()
        assert record.error == "upstream_frame_too_large"
        await up.vacated()


async def test_several_choices_have_several_times_the_limit() -> None:
    """`max_tokens` is for each of them."""
    texts = ["x" * 400] * 10  # 1000 tokens by the rule of thumb: within four times 8 x 64
    frames = openai_frames(texts)
    others = [frame.replace(b'"index":0', b'"index":%d' % n) for n in range(1, 8) for frame in (frames[0], frames[11])]
    script: list[Step] = [Head(), *[Send(frame) for frame in (*frames[:12], *others, *frames[12:])], End()]
    async with gateway_to(script, "[server.timeouts]\nsilence_s = 0.001\nidle_s = 5") as (gate, _):
        reply = await gate.ask(model="up/m", stream=True, n=8, max_tokens=64)
        assert text_of(reply.body) == "".join(texts)
        assert (await gate.settled())[0].verdict == "completed"


async def test_a_whole_answer_has_no_time_to_the_first_token() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _):
        await gate.ask(model="up/m")
        (record,) = await gate.settled()
        assert record.ttft_s is None
        assert record.duration_s > 0


async def test_after_the_signal_a_kept_connection_ends_with_its_answer() -> None:
    go_on = asyncio.Event()
    frames = openai_frames()
    script: list[Step] = [Head(), Send(frames[0] + frames[1]), Wait(go_on), Send(b"".join(frames[2:])), End()]
    async with gateway_to(script) as (gate, _), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        assert (await client.head()).status == 200  # without `connection: close`: it was sent before the signal
        gate.gateway.stop_admitting()
        go_on.set()
        while await client.chunk():
            pass
        assert await client.is_closed()


@pytest.mark.parametrize("model", ["up/..", "up/../secrets", "up/a/./b", "up/."])
async def test_a_model_is_no_path(model: str) -> None:
    async with gateway_to(stream(openai_stream())) as (gate, up):
        assert (await gate.ask(model=model, stream=True)).status == 404
        assert up.requests == []
