"""A worker from the supervisor's side: its process, its channel, and what it has reported.

It is no fault if a worker does not answer: it may have been killed at any moment, and the task of its slot starts
another one.
"""

import asyncio

from streamweir.server.process.control_socket import Channel, ChannelError, Details


class Worker:
    """A process, and its channel as soon as it has connected."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, reloads: int) -> None:
        self.number = number
        self.process = process
        self.reloads = reloads
        """The number of reloads before it was started: it has read the file after them."""
        self.channel: Channel | None = None
        self.has_served = False
        self.instance: str | None = None
        """The id of its instance in the database."""
        self.last_metrics = b""

    @property
    def is_ending(self) -> bool:
        """It has ended, or will soon: a worker without a supervisor ends."""
        return self.channel is None or self.channel.is_closed or self.process.returncode is not None

    async def request(self, what: str, timeout_s: float) -> Details | None:
        try:
            return await self.channel.request(what, timeout_s=timeout_s) if self.channel is not None else None
        except ChannelError:
            return None

    def has_failed(self, answer: Details | None) -> bool:
        """Whether it could not load a new configuration, according to its answer, and continues with the old one."""
        return not self.is_ending if answer is None else answer["reason"] is not None

    def stop(self, *, force: bool, lame_duck: bool) -> None:
        if self.process.returncode is not None:
            return
        if self.channel is not None and not self.channel.is_closed:
            self.channel.notify("stop", {"force": force, "lame_duck": lame_duck})
        elif force:
            self.process.kill()
        else:
            self.process.terminate()
