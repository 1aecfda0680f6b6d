"""What ends a command: bad requests and bad input, each one line that stands for itself; and what is our own fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.errors import HighwaterError
from highwater.model.names import unknown


class InputError(HighwaterError):
    """A request or a file that cannot be used. The message is one line and stands for itself."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InternalError(RuntimeError):
    """The checker contradicts itself: a defect of it, or of the machine, and no answer to what was asked.

    It is no kind of the errors above, so that nothing that tells of those takes it for one. ``facts`` are what a report
    of it should say, as plain values.
    """

    def __init__(self, message: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = dict(facts or {})


__all__ = ["InputError", "InternalError", "unknown"]
