"""The process pool: how its processes are interrupted, fail and end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from typing import Any

import pytest

from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.processes import Pool, ProcessEnded, Say
from tests.checker.test_side_by_side import gone


def told(pool: Pool[int], jobs: Iterable[int], count: int) -> list[tuple[int, Any, bool]]:
    return [(n.job, n.said, n.done) for n in pool.run(jobs, count) if n is not None]


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
            elif isinstance(news.said, KeyboardInterrupt):
                found.append("nothing")
            else:
                found.append(news.said)
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
    assert all(map(gone, news.said))


def test_nothing_for_a_while() -> None:
    def slow(job: int, say: Say) -> int:
        time.sleep(0.3)
        return job

    with Pool(slow, copied=True) as pool:
        news = list(pool.run([7], 1, every=0.05))
    assert None in news
    assert [n.said for n in news if n is not None] == [7]


def test_a_pool_whose_processes_cannot_start_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.checker.base.processes._serve", os._exit)
    with Pool(pids, copied=True) as pool, pytest.raises(ProcessEnded):
        told(pool, [1], 2)
