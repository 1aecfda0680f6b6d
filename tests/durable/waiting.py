"""Turn an endless wait, as on a pipe without a writer, into an error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def without_waiting(seconds: int = 60) -> Iterator[None]:
    """Raises AssertionError in the block after ``seconds``."""

    def end(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
