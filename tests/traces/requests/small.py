"""A small cluster with made request logs: leader 0 and one or two followers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.generation.requests import TOPIC_ID, RequestLogs


class Small:
    """Leader 0 and its followers; ``isr`` is the ISR at the start."""

    def __init__(
        self, made: RequestLogs, min_isr: int, whole: bool, replicas: Sequence[int], isr: Sequence[int]
    ) -> None:
        self.made = made
        if whole:
            made.produce(0, -1, error=45)
        self.epochs = made.begin(replicas, replicas, isr, min_isr)

    def fetch(
        self, offset: int, hwm: int, size: int = 70, wait: int = 50, f: int = 1, error: int = 0, epoch: int = 0,
        took: float = 2.0,
    ) -> None:  # fmt: skip
        """A fetch of follower ``f`` and its answer, which comes after ``took`` ms."""
        made = self.made
        made.now += wait
        made.took = took
        made.fetch(0, f, self.epochs[f], epoch, offset, -1 if not offset else 0, hwm, size, error=error)
        made.took = 2.0

    def alter(
        self, answer: object, members: Sequence[int], partition_epoch: int = 0, wait: int = 0, **more: object
    ) -> None:
        self.made.now += wait
        named = [(m, self.epochs.get(m, 1)) for m in members]
        self.made.alter(0, self.epochs[0], 0, partition_epoch, named, answer, **more)  # type: ignore[arg-type]

    def follows(self, times: int = 3) -> None:
        """The leader writes records with acks=1, and the follower fetches each one."""
        for offset in range(times):
            self.made.produce(0, offset, acks=1)
            self.fetch(offset, max(0, offset - 1))

    def change(self, **fields: object) -> None:
        self.made.records(("PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": TOPIC_ID, **fields}))

    def go_on(self) -> None:
        """Write 25 lines over 7.5 s, so that no request is in flight any more."""
        for _ in range(25):
            self.made.now += 300
            self.made.produce(0, -1, error=45)


def report_of(
    directory: Path,
    happens: Callable[[Small], None],
    min_isr: int = 1,
    whole: bool = True,
    replicas: Sequence[int] = (0, 1),
    isr: Sequence[int] | None = None,
) -> Report:
    """The replay of a small cluster after ``happens``.

    ``whole``: the leader's request log starts before the partition's creation.
    """
    with RequestLogs(directory) as made:
        small = Small(made, min_isr, whole, replicas, replicas if isr is None else isr)
        happens(small)
        small.go_on()
    return replay(directory)


def said(report: Report) -> list[str]:
    """The actions of nonconforming messages, and the rules of findings in messages."""
    found = [c.action for u in report.unexplained if "line" in u.position for c in u.candidates]
    return found + [f.rule for f in report.findings if "line" in f.position]


def told(directory: Path, happens: Callable[[Small], None], **cluster: object) -> list[str]:
    """The result of ``said`` for a small cluster after ``happens``."""
    return said(report_of(directory, happens, **cluster))  # type: ignore[arg-type]


Test = Callable[[Path], None]


def conforms(**cluster: object) -> Callable[[Callable[[Small], None]], Test]:
    """Make a test of what happens in a small cluster: the replay says nothing of it."""

    def test_of(happens: Callable[[Small], None]) -> Test:
        def test(tmp_path: Path) -> None:
            assert told(tmp_path, happens, **cluster) == []

        return test

    return test_of


def limit(allowed: int, expected: list[str], **cluster: object) -> Callable[[Callable[..., None]], Test]:
    """Make a test of what happens after ``wait`` ms: ``allowed`` ms conform, one more is ``expected``."""

    def test_of(happens: Callable[..., None]) -> Test:
        def test(tmp_path: Path) -> None:
            for wait, said in ((allowed, []), (allowed + 1, expected)):
                assert told(tmp_path / str(wait), partial(happens, wait=wait), **cluster) == said

        return test

    return test_of
