"""The providers of the random load: one scripted upstream that does to each request what its plan says.

Some plans have a turn: the moment at which the upstream sends what changes everything (far more text than was held).
Their callers may wait for it and leave then, so that both reach the gateway together.
"""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

from randomload.plan import Plan, plan_of
from support.answers import (
    anthropic_error_body,
    anthropic_frames,
    anthropic_whole,
    error_body,
    error_frame,
    gemini_error_body,
    gemini_frames,
    gemini_whole,
    openai_frames,
    openai_whole,
)
from support.script import End, Fin, Hang, Head, Line, Rst, Seen, Send, Step, whole

MARK = re.compile(rb"call-(\d+)\.")
LONG = "word " * 2000
"""Some 2500 tokens: far beyond any hold of the test."""
LARGE = "x" * 300_000
DEAR = (60_000, 5)
"""A usage that costs more than any budget of the test."""
SPENT_S = 0.5
COMMENT = b": still here\n\n"


class Turns:
    """By the number of the call: whether its upstream has sent what changes everything, or will not any more."""

    def __init__(self) -> None:
        self.pause: Callable[[], None] = lambda: None
        """Stops the gateway for a moment, so that it finds all that comes meanwhile in one turn of its loop."""
        self._events: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._spent: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def of(self, number: int) -> asyncio.Event:
        return self._events[number]

    def spend(self, key: str) -> None:
        """An answer has come that cost more than its key has."""
        self._spent.pop(key, asyncio.Event()).set()

    async def spent(self, key: str) -> None:
        """Until that happens again, or for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SPENT_S):
                await self._spent[key].wait()

    def forget(self, number: int) -> None:
        self._events.pop(number, None)


class Providers:
    """The script of the upstream."""

    def __init__(self, seed: str, turns: Turns) -> None:
        self._seed = seed
        self._turns = turns

    def script(self, request: Seen) -> Sequence[Step]:
        found = MARK.search(request.body)
        assert found is not None, "a request that nobody has sent"
        plan = plan_of(self._seed, int(found[1]))
        if plan.upstream == "never answers":
            return [self._turn(plan), Hang()]
        if plan.upstream == "resets at once":
            return [self._turn(plan), Rst()]
        if plan.upstream == "sends an error":
            return [self._turn(plan), *_error(plan)]
        is_streamed = b'"stream":true' in request.body.replace(b" ", b"") or "stream" in request.path
        return self._stream(plan) if is_streamed else self._whole(plan)

    def _stream(self, plan: Plan) -> list[Step]:
        texts = ["Once upon a time", *(f" word{number}" for number in range(plan.words))]
        if plan.upstream == "outgrows its hold":
            texts.insert(1, LONG)
        elif plan.upstream == "sends a large frame":
            texts.insert(1, LARGE)
        frames = _frames(plan, texts)
        turn_at = 2 if plan.wire != "gemini" else 1
        pause = _pause(plan.pause_s if plan.upstream != "is slow" else 0.05)
        steps: list[Step] = [pause, Head()]
        for place, frame in enumerate(frames):
            if place == turn_at:
                steps += [self._turn_comes(plan), self._turn(plan)]
            if place == turn_at + 1 and (ending := _broken(plan)):
                return [*steps, *ending]
            if plan.upstream == "sends comments":
                steps.append(Send(COMMENT * 20))
            steps += [Send(frame), pause]
        return [*steps, self._turn(plan), self._over(plan), End()]

    def _whole(self, plan: Plan) -> list[Step]:
        text = "Once upon a time" + (LONG if plan.upstream == "outgrows its hold" else "")
        body = _whole_body(plan, text)
        head = Head(200, "application/json", framing=len(body))
        start = [_pause(plan.pause_s), self._turn(plan), head]
        if plan.upstream in ("ends in the midst", "resets in the midst", "falls silent"):
            return [*start, Send(body[: len(body) // 2]), *(_broken(plan) or [])]
        return [*start, Send(body), self._over(plan), End()]

    def _turn_comes(self, plan: Plan) -> Step:
        """What outgrows its hold does so when another answer has exhausted the key, where there is one in time."""

        async def wait(line: Line) -> None:  # noqa: ARG001 (a step)
            if plan.upstream == "outgrows its hold":
                await self._turns.spent(plan.key)

        return wait

    def _over(self, plan: Plan) -> Step:
        async def over(line: Line) -> None:  # noqa: ARG001 (a step)
            if plan.upstream == "reports more than was held":
                asyncio.get_running_loop().call_later(plan.offset * 0.05, self._turns.spend, plan.key)

        return over

    def _turn(self, plan: Plan) -> Step:
        async def turn(line: Line) -> None:  # noqa: ARG001 (a step)
            if plan.caller == "leaves with the turn":
                self._turns.pause()
            self._turns.of(plan.number).set()

        return turn


def _frames(plan: Plan, texts: Sequence[str]) -> list[bytes]:
    usage: tuple[int, int] | None = (plan.prompt_words + 5, len(texts))
    if plan.upstream == "reports more than was held":
        usage = DEAR
    if plan.wire == "anthropic":
        return anthropic_frames(texts, usage)
    if plan.wire == "gemini":
        return gemini_frames(texts, usage)
    frames = openai_frames(texts, None if plan.upstream == "says nothing of usage" else usage)
    if plan.choices == 1:
        return frames
    if plan.upstream == "leaves a choice out":
        return frames
    second = [frame.replace(b'"index":0', b'"index":1') for frame in frames if b'"delta"' in frame]
    return [*frames[:2], *second, *frames[2:]]


def _whole_body(plan: Plan, text: str) -> bytes:
    usage = DEAR if plan.upstream == "reports more than was held" else (plan.prompt_words + 5, 7)
    if plan.upstream == "sends no JSON":
        return b"<html>busy</html>"
    if plan.upstream == "sends an error in the midst":
        return _error_body(plan)
    if plan.wire == "anthropic":
        return anthropic_whole(text, usage)
    if plan.wire == "gemini":
        return gemini_whole(text, usage)
    body = openai_whole(text, None if plan.upstream == "says nothing of usage" else usage)
    if plan.upstream != "answers every choice":
        return body
    document = json.loads(body)
    document["choices"].append({**document["choices"][0], "index": 1})
    return json.dumps(document).encode()


def _broken(plan: Plan) -> list[Step] | None:
    """How the answer breaks off."""
    endings: dict[str, Callable[[], list[Step]]] = {
        "ends in the midst": lambda: [Fin()],
        "resets in the midst": lambda: [Rst()],
        "falls silent": lambda: [Hang()],
        "sends an error in the midst": lambda: [Send(error_frame(_error_body(plan))), End()],
        "sends no JSON": lambda: [Send(b"data: <html>\n\n"), End()],
    }
    ending = endings.get(plan.upstream)
    return ending() if ending is not None else None


def _error(plan: Plan) -> list[Step]:
    headers = [("retry-after", "1")] if plan.status == 429 else []
    return whole(_error_body(plan), plan.status, headers)


def _error_body(plan: Plan) -> bytes:
    makers: dict[str, Callable[[str], bytes]] = {"anthropic": anthropic_error_body, "gemini": gemini_error_body}
    return makers.get(plan.wire, error_body)("not now")


def _pause(seconds: float) -> Step:
    async def pause(line: Line) -> None:  # noqa: ARG001 (a step)
        await asyncio.sleep(seconds)

    return pause
