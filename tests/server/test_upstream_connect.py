"""An upstream that cannot be reached, or not safely: docs/spec/failures.md U1 to U4, and the dead connection of U38.

Nothing was sent to the caller yet, so every failure here has a status of its own, in each dialect,
and another target is tried first where there is one.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.answers import openai_stream, openai_whole
from support.certificate import Certificate, make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import gateway, providers
from support.outcome import (
    ALIAS,
    DIALECTS,
    assert_completed,
    assert_record,
    assert_refused,
    assert_whole,
    path_of,
    serving,
)
from support.script import End, Fin, Head, Raw, Rst, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream, black_hole, closed_port

pytestmark = pytest.mark.usefixtures("no_jitter")

ANSWER = stream(openai_stream())
HASTE = "[server.timeouts]\nconnect_s = 0.05\n"


def streamed(dialect: str, **members: Any) -> dict[str, Any]:
    return {"path": path_of(dialect), "stream": True, **members}


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u1_a_refused_connection_is_tried_three_times(dialect: str, is_streamed: bool) -> None:
    async with gateway(providers(dead=f"http://127.0.0.1:{closed_port()}/v1")) as gate:
        reply = await gate.ask(path=path_of(dialect), model="dead/m", stream=is_streamed)
        assert_refused(reply, "upstream_connect_failed", dialect)
        code = "upstream_connect_failed"
        await assert_record(gate, "upstream_error", error=code, status=502, attempts=[code] * 3)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u1_a_refused_connection_fails_over(dialect: str) -> None:
    async with ScriptedUpstream(ANSWER) as up:
        targets = providers(first=f"http://127.0.0.1:{closed_port()}/v1", second=up.base_url)
        async with gateway(targets + ALIAS) as gate:
            reply = await gate.ask(**streamed(dialect, model="either"))
            assert_completed(reply, dialect)
            record = await assert_record(gate, "completed", attempts=["upstream_connect_failed", None], usage=(7, 5))
            assert [each.target for each in record.attempts] == ["first/m", "second/n"]
            assert len(up.requests) == 1
        await up.vacated()


async def test_u1_both_targets_refuse() -> None:
    dead = providers(first=f"http://127.0.0.1:{closed_port()}/v1", second=f"http://127.0.0.1:{closed_port()}/v1")
    async with gateway(dead + ALIAS) as gate:
        assert_refused(await gate.ask(model="either", stream=True), "upstream_connect_failed")
        code = "upstream_connect_failed"
        record = await assert_record(gate, "upstream_error", error=code, status=502, attempts=[code] * 3)
        assert [each.target for each in record.attempts] == ["first/m", "second/n", "second/n"]


class Resolver:
    """Stands before the system's, for that may lose a question and take seconds over the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_asked = asyncio.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._loop = loop
        self._system = socket.getaddrinfo

    def __call__(self, host: str, port: int, **hints: int) -> list[Any]:
        if host != "nx.invalid":
            return self._system(host, port, **hints)
        self._loop.call_soon_threadsafe(self.is_asked.set)
        self.may_answer.wait(WAIT_TIMEOUT_S)
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: canary")


@pytest.fixture
async def resolver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Resolver]:
    made = Resolver(asyncio.get_running_loop())
    monkeypatch.setattr(socket, "getaddrinfo", made)
    yield made
    made.may_answer.set()


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u2_an_unknown_host_name(dialect: str, is_streamed: bool) -> None:
    async with gateway(providers(lost="http://nx.invalid/v1")) as gate:
        reply = await gate.ask(path=path_of(dialect), model="lost/m", stream=is_streamed)
        assert "nx.invalid" not in assert_refused(reply, "upstream_dns_failed", dialect)
        code = "upstream_dns_failed"
        await assert_record(gate, "upstream_error", error=code, status=502, attempts=[code] * 3)


async def test_u2_an_unknown_host_name_fails_over(resolver: Resolver) -> None:
    """And while the name is looked for, others are answered."""
    resolver.may_answer.clear()
    async with ScriptedUpstream(ANSWER) as up:
        async with gateway(providers(first="http://nx.invalid/v1", second=up.base_url) + ALIAS) as gate:
            asking = asyncio.ensure_future(gate.ask(model="either", stream=True))
            await resolver.is_asked.wait()
            assert_completed(await gate.ask(model="second/n", stream=True))
            resolver.may_answer.set()
            assert_completed(await asking)
            await assert_record(gate, "completed", attempts=["upstream_dns_failed", None], count=2)
        await up.vacated()


async def test_u2_a_resolver_that_does_not_answer(resolver: Resolver) -> None:
    resolver.may_answer.clear()
    async with gateway(providers(lost="http://nx.invalid/v1") + HASTE) as gate:
        assert_refused(await gate.ask(model="lost/m", stream=True), "upstream_timeout")
        await assert_record(gate, "first_token_timeout", error="upstream_timeout", status=504)


@pytest.mark.soak
async def test_u2_an_unknown_host_name_by_the_systems_resolver() -> None:
    """In `make test` the resolver is ours: how long the system's takes is not ours to say."""
    async with gateway(providers(lost="http://nx.invalid/v1") + "[server.timeouts]\nconnect_s = 60\n") as gate:
        assert_refused(await gate.ask(model="lost/m", stream=True), "upstream_dns_failed")
        await gate.settled()


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u3_a_connection_that_never_comes_about(dialect: str, is_streamed: bool) -> None:
    with black_hole() as port:
        async with gateway(providers(hole=f"http://127.0.0.1:{port}/v1") + HASTE) as gate:
            reply = await gate.ask(path=path_of(dialect), model="hole/m", stream=is_streamed)
            assert_refused(reply, "upstream_timeout", dialect)
            await assert_record(gate, "first_token_timeout", error="upstream_timeout", status=504)


async def test_u3_a_connection_that_never_comes_about_fails_over() -> None:
    with black_hole() as port:
        async with ScriptedUpstream(ANSWER) as up:
            targets = providers(first=f"http://127.0.0.1:{port}/v1", second=up.base_url)
            async with gateway(targets + ALIAS + HASTE) as gate:
                assert_completed(await gate.ask(model="either", stream=True))
                await assert_record(gate, "completed", attempts=["upstream_timeout", None])
            await up.vacated()


def self_signed(folder: Path) -> Certificate:
    return make_certificate(folder)


def expired(folder: Path) -> Certificate:
    now = datetime.now(UTC)
    return make_certificate(folder, valid_from=now - timedelta(days=9), valid_to=now - timedelta(days=1))


def of_another_name(folder: Path) -> Certificate:
    return make_certificate(folder, "another.test")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("made", "is_known"),
    [(self_signed, False), (expired, True), (of_another_name, True)],
    ids=["self_signed", "expired", "name"],
)
async def test_u4_a_certificate_that_cannot_be_trusted(
    tmp_path: Path, made: Callable[[Path], Certificate], is_known: bool, dialect: str
) -> None:
    certificate = made(tmp_path)
    trust = f'ca_file = "{certificate.cert_file}"\n' if is_known else ""
    async with ScriptedUpstream(ANSWER, tls=certificate.server_context()) as up:
        async with gateway(providers(up=up.base_url) + trust) as gate:
            reply = await gate.ask(**streamed(dialect, model="up/m"))
            assert_refused(reply, "upstream_tls_failed", dialect)
            await assert_record(gate, "upstream_error", error="upstream_tls_failed", status=502)
        await up.vacated()
        assert up.requests == []


async def test_u4_the_same_certificate_serves_where_it_is_trusted(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    async with ScriptedUpstream(ANSWER, tls=certificate.server_context()) as up:
        async with gateway(providers(up=up.base_url) + f'ca_file = "{certificate.cert_file}"\n') as gate:
            assert_completed(await gate.ask(model="up/m", stream=True))
            await assert_record(gate, "completed")
        await up.vacated()


async def test_u4_a_certificate_that_cannot_be_trusted_fails_over(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(ANSWER, tls=self_signed(tmp_path).server_context()) as feigned,
        ScriptedUpstream(ANSWER) as up,
    ):
        async with gateway(providers(first=feigned.base_url, second=up.base_url) + ALIAS) as gate:
            assert_completed(await gate.ask(model="either", stream=True))
            await assert_record(gate, "completed", attempts=["upstream_tls_failed", None])
        await up.vacated()
        assert feigned.requests == []


@pytest.mark.parametrize("closing", [Fin(), Rst()], ids=["fin", "rst"])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_u38_a_kept_connection_that_is_dead_is_replaced_unseen(closing: Step, is_streamed: bool) -> None:
    answer = ANSWER if is_streamed else whole(openai_whole())
    async with serving(in_turn(answer, [closing], answer)) as (gate, up):
        for count in (1, 2):
            reply = await gate.ask(model="up/m", stream=is_streamed)
            (assert_completed if is_streamed else assert_whole)(reply)
            await gate.settled(count)
            await up.idle()
        assert [[each.resends for each in record.attempts] for record in gate.records] == [[0], [1]]
        assert [each.connection for each in up.requests] == [0, 0, 1]
        assert up.requests[1].body == up.requests[2].body


async def test_u38_a_connection_that_was_closed_in_time_is_not_used() -> None:
    async with serving(ANSWER) as (gate, up):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await up.idle()
        up.close_idle()
        await up.vacated()
        assert_completed(await gate.ask(model="up/m", stream=True))
        record = await assert_record(gate, "completed", count=2)
        assert record.attempts[0].resends == 0
        assert [each.connection for each in up.requests] == [0, 1]


async def test_u38_a_new_connection_that_is_closed_without_an_answer_is_an_attempt() -> None:
    async with serving(in_turn(ANSWER, [Fin()], [Fin()], ANSWER)) as (gate, up):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await up.idle()
        assert_completed(await gate.ask(model="up/m", stream=True))
        record = await assert_record(gate, "completed", attempts=["upstream_empty_response", None], count=2)
        assert [each.resends for each in record.attempts] == [1, 0]


async def test_u38_nothing_is_sent_again_once_a_byte_has_come() -> None:
    cut: list[Step] = [Raw(b"H"), Fin()]
    async with serving(in_turn(ANSWER, cut, ANSWER)) as (gate, up):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await up.idle()
        assert_completed(await gate.ask(model="up/m", stream=True))
        record = await assert_record(gate, "completed", attempts=["upstream_stream_truncated", None], count=2)
        assert [each.resends for each in record.attempts] == [0, 0]


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_connection_that_serves_well_is_kept(is_streamed: bool) -> None:
    answer: list[Step] = [Head(), Send(openai_stream(), pieces_of=50), End()] if is_streamed else whole(openai_whole())
    async with serving(answer) as (gate, up):
        for _ in range(3):
            await gate.ask(model="up/m", stream=is_streamed)
            await up.idle()
        await assert_record(gate, "completed", count=3)
        assert up.accepted == 1
