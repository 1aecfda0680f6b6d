"""The memory that this process has used, and the memory that machine, control groups and limits leave it."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_STATUS = Path("/proc/self/status")
_GROUP_FILES = {
    "cgroup2": (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    "cgroup": (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: the files with a limit, that with what is used, and what of it can be given up."""


def peak_memory() -> int:
    """The largest number of resident bytes that this process has had since its program began.

    On Linux getrusage and wait4 include the peak of the parent process, whose memory a process shares until its own
    program begins. VmHWM restarts with the program. Only a running process can read it.
    """
    found = _status().get("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def collect_garbage_rarely() -> None:
    """Make this process collect garbage less often, because the many nodes of expression graphs are never garbage.

    With Python's default a tenth of the time of tracing is spent on it.
    """
    gc.set_threshold(100_000, 50, 100)


def available_memory() -> int:
    """The bytes of memory that this process can still use: the least that machine, control groups and limits leave."""
    return max(0, min([_of_machine(), *_of_groups(), *_of_limits()]))


def _of_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_limits() -> Iterator[int]:
    """For each limit on this process's address space or data, the bytes that it leaves."""
    used = _status()
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            yield most - used.get(name, 0)


def _status() -> dict[str, int]:
    """The memory sizes of this process in bytes, by the kernel's names (``VmHWM``)."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = int(value.split()[0]) * 1024
    return found


def _of_groups(proc: Path = Path("/proc/self")) -> Iterator[int]:
    """For each control group of this process and each group above it, the bytes of memory that it leaves.

    ``proc`` is the folder that lists the groups.
    """
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    except (OSError, UnicodeError):
        return
    for fields in mounts:
        with suppress(ValueError, IndexError):
            root, point, kind = fields[3], Path(fields[4]), fields[fields.index("-") + 1]
            if kind not in _GROUP_FILES or (kind == "cgroup" and "memory" not in fields[-1].split(",")):
                continue
            for _, controllers, path in (group for group in groups if len(group) == 3):
                if controllers == "" if kind == "cgroup2" else "memory" in controllers.split(","):
                    yield from _of_group(kind, point, _below(path, root))


def _below(path: str, root: str) -> PurePosixPath:
    """The path of a control group below the mounted one; the mounted group itself if it is not below."""
    with suppress(ValueError):
        return PurePosixPath(path).relative_to(root)
    return PurePosixPath()


def _of_group(kind: str, point: Path, path: PurePosixPath) -> Iterator[int]:
    limits, current, reclaimable = _GROUP_FILES[kind]
    if ".." in path.parts:
        return
    for below in (path, *path.parents):
        folder = point / below
        most = [n for n in (_number(folder / name) for name in limits) if n is not None]
        used = _number(folder / current)
        if most and used is not None:
            yield min(most) - max(0, used - _part(folder / "memory.stat", reclaimable))


def _number(file: Path) -> int | None:
    """The number in a file; None if there is no such file, or it has "max"."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return None


def _part(file: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in file.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
