"""How much memory this process has used, and how much there is."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """The most resident bytes that this process had since its program began.

    On Linux neither getrusage nor wait4 tells that: a process takes over the peak of the one that started it, whose
    memory it shares until its own program begins. VmHWM begins anew with the program. It is gone when the process has
    ended, so a process asks for its own.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_memory() -> int:
    """Bytes of memory that are free to use."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


__all__ = ["available_memory", "peak_memory"]
