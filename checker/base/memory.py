"""The peak memory of this process, and the memory that is still available to it."""

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
"""By cgroup version: the files with a limit, the file with the usage, and the statistic of reclaimable memory."""


def peak_memory() -> int:
    """The peak resident memory of this process in bytes, since its program began (``exec``).

    On Linux this is VmHWM. The peak of getrusage also includes the memory shared with the parent before ``exec``.
    """
    found = _status().get("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def collect_garbage_rarely() -> None:
    """Collect garbage less often: expression graphs have many nodes, and none of the nodes is garbage.

    With Python's defaults, garbage collection takes a tenth of the time of tracing a protocol.
    """
    gc.set_threshold(100_000, 50, 100)


def available_memory() -> int:
    """The bytes of memory available to this process: the least of what machine, control groups and limits leave."""
    return max(0, min([_of_machine(), *_of_groups(), *_of_limits()]))


def _of_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_limits() -> Iterator[int]:
    """The bytes left under each limit on the address space or the data of this process."""
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
    """The bytes of memory left in each control group of this process and in each of their parents.

    ``proc`` is the folder with the files ``cgroup`` and ``mountinfo``.
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
    """The path of a control group relative to ``root``, the mounted group; empty if the group is not below it."""
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
    """The number in a file; None if the file is missing or contains "max"."""
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
