"""Reads a small text file that the operator names: a key, or variables.

Only regular files are read, also through links: others may block, and cannot be read again at a reload. No reason
contains anything of the file.
"""

import os
import stat


class UnreadableFile(Exception):
    """The text is the reason."""


def read_text(file: str, max_bytes: int) -> str:
    """The text of a small file. Raises `UnreadableFile`."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnreadableFile("file not found") from None
    except (OSError, ValueError) as reason:
        raise UnreadableFile(f"cannot be read: {getattr(reason, 'strerror', None) or 'not a file name'}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFile("is not a regular file")
        data = b""
        while len(data) <= max_bytes and (piece := os.read(descriptor, max_bytes + 1)):
            data += piece
    except OSError as reason:
        raise UnreadableFile(f"cannot be read: {reason.strerror}") from None
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise UnreadableFile(f"is larger than {max_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    raise UnreadableFile("is not UTF-8 text")  # outside of the handler, whose exception contains the file
