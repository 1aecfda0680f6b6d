"""The memory limit, the least of all limits; the process pool: how processes are interrupted, fail and end."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base import memory
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.processes import Pool, ProcessEnded, Say
from tests.checker.test_side_by_side import gone

MIB = 1 << 20


def tree(tmp_path: Path, groups: str, mounts: list[str], files: dict[str, str]) -> list[int]:
    """The memory left by each control group, for these groups, mounts and files below /proc and /sys."""
    proc, root = tmp_path / "proc", tmp_path / "sys"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    (proc / "mountinfo").write_text("\n".join(mount.format(root=root) for mount in mounts) + "\n")
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return list(memory._of_groups(proc))


V2 = "30 25 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "35 31 0:32 {place} {{root}} rw,relatime - cgroup cgroup rw,memory"
CPU = "36 31 0:33 / {root}/cpu rw,relatime - cgroup cgroup rw,cpu"


def test_version_2_and_the_groups_above(tmp_path: Path) -> None:
    files = {
        "a/b/memory.max": f"{950 * MIB}\n",
        "a/b/memory.high": f"{900 * MIB}\n",
        "a/b/memory.current": f"{500 * MIB}\n",
        "a/b/memory.stat": f"anon 1\ninactive_file {200 * MIB}\n",
        "a/memory.max": f"{700 * MIB}\n",
        "a/memory.high": "max\n",
        "a/memory.current": f"{600 * MIB}\n",
        "memory.stat": "anon 1\n",
    }
    assert tree(tmp_path, "0::/a/b\n", [V2], files) == [600 * MIB, 100 * MIB]


def test_version_1(tmp_path: Path) -> None:
    files = {
        "job/memory.limit_in_bytes": f"{64 * MIB}\n",
        "job/memory.usage_in_bytes": f"{60 * MIB}\n",
        "job/memory.stat": f"cache 1\ntotal_inactive_file {10 * MIB}\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.usage_in_bytes": "4096\n",
        # Files of another controller can have the same names: they say nothing about memory.
        "other/memory.limit_in_bytes": "1\n",
        "other/memory.usage_in_bytes": "1\n",
        "cpu/job/memory.limit_in_bytes": "2\n",
        "cpu/job/memory.usage_in_bytes": "2\n",
    }
    groups = "5:cpu:/other\n4:memory:/job\n0::/\n"
    found = tree(tmp_path, groups, [CPU, V1.format(place="/")], files)
    assert found == [14 * MIB, 9223372036854771712 - 4096]


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    """The group's path is the host's path, and the group itself is mounted as the root."""
    files = {"memory.limit_in_bytes": f"{64 * MIB}\n", "memory.usage_in_bytes": f"{4 * MIB}\n"}
    groups = "4:memory:/docker/0123\n"
    assert tree(tmp_path, groups, [V1.format(place="/docker/0123")], files) == [60 * MIB]


def test_a_group_outside_of_the_mount_is_not_read(tmp_path: Path) -> None:
    """A process in another namespace sees such a path. Nothing outside of the mount is read."""
    files = {"../memory.limit_in_bytes": "1\n", "../memory.usage_in_bytes": "1\n"}
    assert tree(tmp_path, "4:memory:/../.\n", [V1.format(place="/")], files) == []


@pytest.mark.parametrize("groups", ["", "nonsense\n", "4:memory:/../../etc\n", "0::/gone\n"])
def test_an_unreadable_limit_is_ignored(groups: str, tmp_path: Path) -> None:
    assert tree(tmp_path, groups, [V2, V1.format(place="/")], {"a/memory.max": "x"}) == []


def test_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_of_groups", lambda: iter([5 * MIB, 3 * MIB]))
    assert memory.available_memory() == 3 * MIB
    monkeypatch.setattr(memory, "_of_machine", lambda: 2 * MIB)
    assert memory.available_memory() == 2 * MIB
    monkeypatch.setattr(memory, "_of_limits", lambda: iter([4 * MIB, MIB]))
    assert memory.available_memory() == MIB
    monkeypatch.setattr(memory, "_of_groups", lambda: iter([-MIB]))
    assert memory.available_memory() == 0


def test_limits_leave_their_unused_part(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {resource.RLIMIT_AS: 900 * MIB, resource.RLIMIT_DATA: 500 * MIB}
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limits[what], -1))
    monkeypatch.setattr(memory, "_status", lambda: {"VmSize": 300 * MIB, "VmData": 200 * MIB})
    assert [*memory._of_limits()] == [600 * MIB, 300 * MIB]
    limits[resource.RLIMIT_AS] = resource.RLIM_INFINITY
    assert [*memory._of_limits()] == [300 * MIB]


def test_memory_of_the_process_is_in_bytes() -> None:
    told = memory._status()
    assert told["VmSize"] > told["VmRSS"] > 10 * MIB
    assert told["VmSize"] > told["VmData"] > MIB
    assert memory.peak_memory() >= told["VmRSS"]
    assert memory._of_machine() > 64 * MIB


def limited(what: int, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "highwater", *arguments],
        preexec_fn=lambda: resource.setrlimit(what, (size, size)),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )


@pytest.mark.parametrize("what", [resource.RLIMIT_AS, resource.RLIMIT_DATA], ids=["address space", "data"])
def test_a_search_fits_into_the_limits_of_its_process(what: int, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = limited(what, 1 << 30, "check", "truncation/kip-320", "--workers", "2", "--json", str(result))
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(result.read_text())
    assert found["distinct_states"] == 39_619


def test_with_next_to_nothing_it_is_one_line() -> None:
    done = limited(resource.RLIMIT_AS, 300 << 20, "check", "truncation/kip-320", "--workers", "2")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "highwater: " in done.stderr


# --- the process pool ---------------------------------------------------------------------------------


def told(pool: Pool[int], jobs: Iterable[int], count: int) -> list[tuple[int, Any, bool]]:
    return [(n.job, n.value, n.done) for n in pool.run(jobs, count) if n is not None]


def wrong(job: int, say: Say) -> int:
    if job == 1:
        raise InputError("one line")
    if job == 2:
        raise InternalError("two and two", {"sum": 5})
    if job == 3:
        raise ZeroDivisionError
    if job == 4:
        os._exit(1)
    return job


def test_a_job_reports_news_and_then_its_result() -> None:
    """The pool is spawned, not forked, so the job function is found by its name."""
    with Pool(pids, copied=False) as pool:
        news = told(pool, [10, 20, 30], 1)
    assert [(job, done) for job, _, done in news] == [(j, d) for j in (10, 20, 30) for d in (False, True)]
    assert {said for _, said, done in news if done} == {10, 20, 30}
    assert len({said for _, said, done in news if not done}) == 1  # one process took all jobs


def pids(job: int, say: Say) -> int:
    say(os.getpid())
    return job


def test_each_job_has_a_copy_of_its_own() -> None:
    with Pool(pids, copied=True) as pool:
        assert len({said for _, said, done in told(pool, [1, 2, 3], 2) if not done}) == 3


@pytest.mark.parametrize("copied", [True, False])
def test_an_exception_is_a_job_s_result_and_the_next_job_runs(copied: bool) -> None:
    with Pool(wrong, copied=copied) as pool:
        said = {job: what for job, what, done in told(pool, range(6), 1) if done}
    assert (said[0], said[5]) == (0, 5)
    assert isinstance(said[1], InputError)
    assert str(said[1]) == "one line"
    assert isinstance(said[2], InternalError)
    assert said[2].facts == {"sum": 5}
    assert isinstance(said[3], InternalError)
    assert "ZeroDivisionError" in said[3].facts["traceback"]
    assert isinstance(said[4], ProcessEnded)


def test_a_job_is_drawn_only_when_a_process_is_free() -> None:
    asked: list[int] = []

    def jobs() -> Iterable[int]:
        for job in range(3):
            asked.append(job)
            yield job

    with Pool(pids, copied=True) as pool:
        for news in pool.run(jobs(), 1):
            assert news is not None
            assert asked[-1] == news.job
            assert pool.under_way() == ([] if news.done else [news.job])


def test_an_interrupt_collects_partial_results() -> None:
    def until_interrupted(job: int, say: Say) -> str:
        try:
            say("begun")
            time.sleep(10)
        except KeyboardInterrupt:
            return "what it has"
        return "all"

    with Pool(until_interrupted, copied=True) as pool:
        found = []
        for news in pool.run([1, 2], 1):
            assert news is not None
            if not news.done:
                if news.job == 1:
                    pool.interrupt()
            elif isinstance(news.value, KeyboardInterrupt):
                found.append("nothing")
            else:
                found.append(news.value)
    # The second job was interrupted before it began, or immediately.
    assert found[0] == "what it has"
    assert found[1] in ("nothing", "what it has")


def test_a_terminals_interrupt_does_not_reach_them() -> None:
    with Pool(group, copied=True) as pool:
        ((_, said, _),) = told(pool, [0], 1)
    assert said == (True, True)


def group(job: int, say: Say) -> tuple[bool, bool]:
    return os.getpgid(0) == os.getpid(), signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_processes_and_their_children_end_with_the_pool() -> None:
    def starts(job: int, say: Say) -> None:
        say([os.getpid(), subprocess.Popen(["sleep", "60"]).pid])
        time.sleep(60)

    with Pool(starts, copied=True) as pool:
        news = next(pool.run([1], 1))
        assert news is not None
    assert all(map(gone, news.value))


def test_nothing_for_a_while() -> None:
    def slow(job: int, say: Say) -> int:
        time.sleep(0.3)
        return job

    with Pool(slow, copied=True) as pool:
        news = list(pool.run([7], 1, every=0.05))
    assert None in news
    assert [n.value for n in news if n is not None] == [7]


def test_a_pool_whose_processes_cannot_start_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.checker.base.processes._serve", os._exit)
    with Pool(pids, copied=True) as pool, pytest.raises(ProcessEnded):
        told(pool, [1], 2)
