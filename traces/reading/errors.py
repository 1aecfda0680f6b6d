"""What is wrong with a trace that cannot be read."""

from __future__ import annotations

from os import PathLike

from highwater.errors import HighwaterError


class TraceError(HighwaterError):
    """A file that is no trace, or one that breaks off or lies about its own form.

    ``line`` counts from 1 and is None where no line is to blame; ``field`` is the path of the field in the
    line (``records[0].data.isr``), or None. ``byte`` is the position in a binary file, where one is to blame.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        line: int | None,
        field: str | None,
        message: str,
        byte: int | None = None,
    ) -> None:
        self.path, self.line, self.field, self.message, self.byte = str(path), line, field, message, byte
        place = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{place}: {field}: {message}" if field else f"{place}: {message}")


class OutOfRangeError(TraceError):
    """A value of the right kind, but larger or smaller than any that the model has room for."""


def printable(text: object, limit: int = 200) -> str:
    """Text from a trace, fit for a terminal: control characters escaped, cut at a limit."""
    shown = str(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
