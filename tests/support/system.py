"""What the system says of this process."""

import os
from pathlib import Path


def resident_bytes() -> int:
    """The memory that it holds."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
