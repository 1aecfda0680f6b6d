"""Times and durations in words, for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(time: int | None) -> str:
    """A time in ms since the epoch as UTC; as a number where the calendar has no such time."""
    if time is None or time < 0:
        return "no time"
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return f"time {time}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def duration(milliseconds: int) -> str:
    """A duration as h:mm:ss; one below a second in ms."""
    if 0 <= milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


__all__ = ["duration", "utc"]
