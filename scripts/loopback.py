"""Runs a command that can reach nothing but this machine: `python -m scripts.loopback COMMAND...`

The command gets a network namespace of its own, in which there is the loopback and no other interface. Whoever may not
make one as himself makes it inside a user namespace, where he stays who he is. Where the system permits neither, the
command is not started: status 3, and the reason.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NOT_PERMITTED = 3
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def main() -> int:
    command = sys.argv[1:]
    if not command:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        leave_the_network()
    except OSError as error:
        sys.stderr.write(f"No network namespace can be made here: {error}\n")
        return NOT_PERMITTED
    os.execvp(command[0], command)  # noqa: S606
    raise AssertionError("a command that was started does not come back")


def leave_the_network() -> None:
    """This process, which must have one thread, and all that it starts from now on."""
    try:
        _unshare(_NEW_NET)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        _unshare(_NEW_USER | _NEW_NET)
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack_from("h", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _unshare(what: int) -> None:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "there are network namespaces on Linux only")
    if ctypes.CDLL(None, use_errno=True).unshare(what) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
