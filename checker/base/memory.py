"""How much memory this process has used, and how much there is: of the machine, of its control group, by its limits."""

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
    """The most resident bytes that this process had since its program began.

    On Linux getrusage and wait4 include the peak of the parent process, whose memory a process shares until its own
    program begins. VmHWM begins anew with the program. Only a running process can read it.
    """
    found = _status().get("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def collect_garbage_rarely() -> None:
    """Have this process look for garbage less often: nodes of expression graphs are many and stay.

    Looking through them takes a tenth of the time of tracing.
    """
    gc.set_threshold(100_000, 50, 100)


def available_memory() -> int:
    """Bytes of memory that are free to use: the least of what the machine, the control groups and the limits leave."""
    return max(0, min([_of_machine(), *_of_groups(), *_of_limits()]))


def _of_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_limits() -> Iterator[int]:
    """The rest of the limits on this process's address space and on its data."""
    used = _status()
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            yield most - used.get(name, 0)


def _status() -> dict[str, int]:
    """The sizes in bytes of this process, by the kernel's names."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = int(value.split()[0]) * 1024
    return found


def _of_groups(proc: Path = Path("/proc/self")) -> Iterator[int]:
    """The memory left in each control group of this process, and in each above it; ``proc`` lists them."""
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
    """Where a group is below the one that is mounted; the mounted one, where it is not below."""
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
    """The number in a file; None where there is none, or it is "max"."""
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
