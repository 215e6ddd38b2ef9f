"""The line between supervisor and workers: questions both ways, bounded in every direction."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamweir.server.process import control_socket
from streamweir.server.process.control_socket import (
    Channel,
    ChannelError,
    ControlSocket,
    Details,
    RequestRejected,
    connect,
    socket_path,
)
from support.deadlines import WAIT_TIMEOUT_S


class End:
    """One end, which answers what tests need."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[str, Details]] = asyncio.Queue()
        self.channel: Channel | None = None
        self.release = asyncio.Event()

    async def answer(self, channel: Channel, what: str, details: Details) -> Details:
        self.channel = channel
        if what == "echo":
            return details
        if what == "wait":
            await self.release.wait()
            return {}
        if what == "back":  # asks the asker before it answers
            return await channel.request("echo", details, WAIT_TIMEOUT_S)
        if what == "break":
            raise LookupError("a bug")
        if what == "refuse":
            raise RequestRejected("not today")
        self.told.put_nowait((what, details))
        return {}


@asynccontextmanager
async def line(folder: Path, max_channels: int = 8) -> AsyncIterator[tuple[End, Channel, ControlSocket]]:
    """The listening end, and a channel to it whose own end echoes too."""
    far, near = End(), End()
    control = ControlSocket(folder / "control.sock", max_channels, far.answer)
    await control.open()
    channel = await connect(control.path, near.answer)
    try:
        yield far, channel, control
    finally:
        await channel.close()
        await control.close()


async def test_a_question_and_its_answer(tmp_path: Path) -> None:
    async with line(tmp_path) as (_, channel, _):
        assert await channel.request("echo", {"text": "é\n☃" * 1000}) == {"text": "é\n☃" * 1000}


async def test_answers_find_their_questions_in_any_order(tmp_path: Path) -> None:
    async with line(tmp_path) as (far, channel, _):
        slow = asyncio.create_task(channel.request("wait", timeout_s=WAIT_TIMEOUT_S))
        quick = await asyncio.gather(*(channel.request("echo", {"n": number}) for number in range(20)))
        assert [answer["n"] for answer in quick] == list(range(20))
        assert not slow.done()
        far.release.set()
        assert await slow == {}


async def test_either_end_may_ask_while_it_is_asked(tmp_path: Path) -> None:
    async with line(tmp_path) as (_, channel, _):
        assert await channel.request("back", {"n": 1}, WAIT_TIMEOUT_S) == {"n": 1}


async def test_a_notification_has_no_answer(tmp_path: Path) -> None:
    async with line(tmp_path) as (far, channel, _):
        channel.notify("stop", {"force": True})
        assert await far.told.get() == ("stop", {"force": True})


async def test_a_refusal_and_a_fault_are_no_silence(tmp_path: Path) -> None:
    async with line(tmp_path) as (_, channel, _):
        with pytest.raises(ChannelError, match="not today"):
            await channel.request("refuse", timeout_s=WAIT_TIMEOUT_S)
        with pytest.raises(ChannelError, match="a fault"):
            await channel.request("break", timeout_s=WAIT_TIMEOUT_S)
        assert await channel.request("echo") == {}


async def test_a_late_answer_is_not_waited_for(tmp_path: Path) -> None:
    async with line(tmp_path) as (far, channel, _):
        with pytest.raises(ChannelError, match=r"no answer in 0\.01 s"):
            await channel.request("wait", timeout_s=0.01)
        far.release.set()
        assert await channel.request("echo", {"late": "answers hurt nobody"}) == {"late": "answers hurt nobody"}


async def test_questions_at_once_are_bounded(tmp_path: Path) -> None:
    async with line(tmp_path) as (far, channel, _):
        requested = [
            asyncio.create_task(channel.request("wait", timeout_s=WAIT_TIMEOUT_S))
            for _ in range(control_socket.MAX_PENDING)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ChannelError, match="too many"):
            await channel.request("echo")
        far.release.set()
        await asyncio.gather(*requested)


async def test_the_answerer_holds_the_bound_too(tmp_path: Path) -> None:
    far = End()
    control = ControlSocket(tmp_path / "control.sock", 8, far.answer)
    await control.open()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    for number in range(control_socket.MAX_PENDING + 1):
        writer.write(json.dumps({"ask": "wait", "id": number, "with": {}}).encode() + b"\n")
    refusal = json.loads(await reader.readline())
    assert refusal == {"failed": control_socket.MAX_PENDING, "reason": "too many commands at once"}
    writer.close()
    await control.close()


async def test_the_end_of_the_other_side_is_noticed_and_ends_every_question(tmp_path: Path) -> None:
    async with line(tmp_path) as (far, channel, control):
        requested = asyncio.create_task(channel.request("wait", timeout_s=WAIT_TIMEOUT_S))
        await channel.request("echo")
        assert far.channel is not None
        await far.channel.close()
        with pytest.raises(ChannelError, match="gone"):
            await requested
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await channel.closed()
        with pytest.raises(ChannelError, match="not connected"):
            await channel.request("echo")
        channel.notify("stop")
        assert control.path.exists()


@pytest.mark.parametrize(
    "sent",
    [
        b"not json\n",
        b"[]\n",
        b'{"ask": 1}\n',
        b'{"answer": "x", "with": {}}\n',
        b'{"tell": "stop"}\n',
        b"x" * 5000 + b"\n",
        b"\xff\n",
    ],
)
async def test_an_end_that_sends_invalid_messages_is_disconnected(
    tmp_path: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "MAX_LINE_BYTES", 1024)
    async with line(tmp_path) as (_, channel, control):
        reader, writer = await asyncio.open_unix_connection(str(control.path))
        writer.write(sent)
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            assert await reader.read() == b""
        writer.close()
        assert await channel.request("echo", {"others": "stay"}) == {"others": "stay"}


async def test_an_answer_without_a_request_is_harmless(tmp_path: Path) -> None:
    async with line(tmp_path) as (_, channel, control):
        reader, writer = await asyncio.open_unix_connection(str(control.path))
        writer.write(b'{"answer": 99, "with": {}}\n{"ask": "echo", "id": 1, "with": {"n": 1}}\n')
        assert json.loads(await reader.readline()) == {"answer": 1, "with": {"n": 1}}
        writer.close()
        assert not channel.is_closed


async def test_a_caller_that_does_not_read_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with line(tmp_path) as (far, channel, control):
        monkeypatch.setattr(control_socket, "MAX_LINE_BYTES", 64 * 1024)
        await channel.request("echo")
        reader, writer = await asyncio.open_unix_connection(str(control.path))
        writer.write(b'{"ask": "echo", "id": 1, "with": {}}\n')
        await reader.readline()
        deaf = far.channel
        assert deaf is not None
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(100):
            deaf.notify("much", {"text": "x" * 100_000})
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await deaf.closed()
        writer.transport.abort()


async def test_connections_are_bounded(tmp_path: Path) -> None:
    async with line(tmp_path, max_channels=2) as (_, channel, control):
        await channel.request("echo")
        second = await connect(control.path, End().answer)
        await second.request("echo")
        third = await connect(control.path, End().answer)
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await third.closed()
        await second.close()


async def test_the_socket_is_for_its_user_alone_and_does_not_stay(tmp_path: Path) -> None:
    async with line(tmp_path) as (_, _, control):
        assert control.path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []


async def test_a_worker_notices_that_there_is_no_supervisor(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await connect(tmp_path / "control.sock", End().answer)


def test_the_socket_is_beside_the_data(tmp_path: Path) -> None:
    assert socket_path(tmp_path) == tmp_path / f"control-{os.getpid()}.sock"


@pytest.mark.parametrize("exists", [True, False])
async def test_where_that_cannot_be_the_socket_has_a_folder_of_its_own(tmp_path: Path, exists: bool) -> None:
    """A path longer than 107 bytes cannot be bound."""
    deep = tmp_path / ("d" * 100) if exists else tmp_path / "absent"
    if exists:
        deep.mkdir()
    path = socket_path(deep)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    control = ControlSocket(path, 1, End().answer)
    await control.open()
    await control.close()
    assert not path.parent.exists()


def test_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "control-1.sock"))
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(tmp_path / "control-2.sock"))
        alive.listen()
        (tmp_path / "other.sock").touch()
        socket_path(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"control-2.sock", "other.sock"}


async def test_a_message_to_a_closing_end_is_lost_without_a_fault(tmp_path: Path) -> None:
    """The transport knows of the end before the reader does: a killed supervisor, and a worker about to answer it."""
    async with line(tmp_path) as (far, channel, _):
        await channel.request("echo", {})
        channel.notify("hello")
        await far.told.get()
        assert far.channel is not None
        await far.channel.close()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not channel.is_closed:
                channel.notify("still there?")
                await asyncio.sleep(0)
        with pytest.raises(ChannelError):
            await channel.request("echo")
