"""Bad requests and bad input: one line that says where, what is wrong, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.errors import HighwaterError


class InputError(HighwaterError):
    """A request or a file that cannot be used. The message is one line and stands for itself."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def unknown(kind: str, name: str, known: Iterable[str], see: str | None = None) -> str:
    """What to say of a name that nothing has: the nearest known one, or all where they are few; else ``see``."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"unknown {kind} {name!r}; did you mean {near[0]!r}?"
    if not names:
        return f"unknown {kind} {name!r}; there is none"
    if see is not None and len(names) > 12:
        return f"unknown {kind} {name!r}; {see}"
    listed = ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, …"
    return f"unknown {kind} {name!r}; known: {listed}"
