"""An answer of event streams as bytes that may end anywhere: what a caller has of it when its connection is lost.

It counts events as a client does: a block with a `data` line, ended by a blank line. Comments do not count, and the
part of an event that has come is forgotten with its connection.
"""

import re

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r(?!\n)")
_ID = re.compile(rb"id: (\d+)\r?\n(?=\r?\n\Z)")


class StreamBytes:
    """What has come on one connection."""

    def __init__(self) -> None:
        self.status = 0
        """0: the head is not complete."""
        self.headers: dict[str, str] = {}
        self.events: list[bytes] = []
        """Without their `id` lines, which are in `ids`."""
        self.ids: list[int] = []
        self.is_ended = False
        """The body is whole, by the rules of HTTP."""
        self.body = bytearray()
        """Of an answer that is no stream."""
        self._raw = bytearray()
        self._block = bytearray()

    @property
    def is_stream(self) -> bool:
        return self.status == 200

    def feed(self, data: bytes) -> None:
        self._raw += data
        if not self.status and not self._read_head():
            return
        if "content-length" in self.headers:
            self.body += self._raw
            self._raw.clear()
            self.is_ended = len(self.body) >= int(self.headers["content-length"])
        else:
            self._read_chunks()

    def _read_head(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            return False
        line, *fields = bytes(self._raw[:end]).decode("latin-1").split("\r\n")
        del self._raw[: end + 4]
        self.headers = dict(field.split(": ", 1) for field in fields)
        self.status = int(line.split(" ")[1])
        return True

    def _read_chunks(self) -> None:
        while (end := self._raw.find(b"\r\n")) >= 0:
            size = int(self._raw[:end], 16)
            if len(self._raw) < end + 2 + size + 2:
                return
            self._take_body(bytes(self._raw[end + 2 : end + 2 + size]))
            assert self._raw[end + 2 + size : end + 4 + size] == b"\r\n"
            del self._raw[: end + 4 + size]
            if not size:
                assert not self._raw, "nothing follows the last chunk"
                self.is_ended = True
                return

    def _take_body(self, data: bytes) -> None:
        self._block += data
        while (blank := _BLANK_LINE.search(self._block)) is not None:
            block = bytes(self._block[: blank.end()])
            del self._block[: blank.end()]
            lines = block.splitlines()
            if any(line == b"data" or line.startswith(b"data:") for line in lines):
                if (numbered := _ID.search(block)) is not None:
                    self.ids.append(int(numbered[1]))
                    block = block[: numbered.start()] + block[numbered.end() :]
                self.events.append(block)
