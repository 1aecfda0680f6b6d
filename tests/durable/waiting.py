"""What waits forever is an error instead: of a pipe that nobody writes to, for one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def without_waiting(seconds: int = 60) -> Iterator[None]:
    """While inside, AssertionError after so many seconds, far more than anything here takes."""

    def end(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
