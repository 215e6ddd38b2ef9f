"""A worker as its supervisor sees it: a process, the line to it, and what it has told so far.

A worker that cannot be asked is no reason for a fault: it may have been killed at any moment, and whoever keeps its
place starts another.
"""

import asyncio

from streamweir.server.process.control_socket import Channel, ChannelError, Details


class Worker:
    """A process, and the line to it as soon as it has called."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, reloads: int) -> None:
        self.number = number
        self.process = process
        self.reloads = reloads
        """How many had been asked for before it was started: those its first reading of the file includes."""
        self.channel: Channel | None = None
        self.has_served = False
        self.instance: str | None = None
        """The id of its instance in the database."""
        self.last_metrics = b""

    @property
    def is_leaving(self) -> bool:
        """It has ended, or is about to: without its supervisor a worker does not stay."""
        return self.channel is None or self.channel.is_closed or self.process.returncode is not None

    async def request(self, what: str, timeout_s: float) -> Details | None:
        try:
            return await self.channel.request(what, timeout_s=timeout_s) if self.channel is not None else None
        except ChannelError:
            return None

    def has_failed(self, answer: Details | None) -> bool:
        """To take up a new configuration, by what it answered, and goes on with the old one."""
        return not self.is_leaving if answer is None else answer["reason"] is not None

    def stop(self, *, force: bool, lame_duck: bool) -> None:
        if self.process.returncode is not None:
            return
        if self.channel is not None and not self.channel.is_closed:
            self.channel.notify("stop", {"hurry": force, "lame_duck": lame_duck})
        elif force:
            self.process.kill()
        else:
            self.process.terminate()
