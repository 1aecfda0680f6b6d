"""The base of every error that a user's request or input can cause, and the message about an unknown name.

This module imports almost nothing, so that commands start quickly.
"""

from collections.abc import Iterable


class HighwaterError(Exception):
    """A request or an input is invalid. The message is one line.

    InputError: a request or a scenario file; LanguageError: the text of a protocol; TraceError: the input of a replay.
    """


LONGEST = 60
"""The maximum number of characters of an unknown name that a message shows."""


def unknown(kind: str, name: str, known: Iterable[str], see: str | None = None) -> str:
    """The error message for an unknown name; it suggests the most similar known name.

    If no known name is similar, the message lists up to 12 known names. If there are more and ``see`` is given, the
    message has the hint ``see`` instead of the list.
    """
    import difflib

    names = sorted(known)
    shown = repr(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")
    near = difflib.get_close_matches(name[:LONGEST], names, n=1, cutoff=0.5)
    if near:
        return f"unknown {kind} {shown}; did you mean {near[0]!r}?"
    if not names:
        return f"unknown {kind} {shown}; there is none"
    if see is not None and len(names) > 12:
        return f"unknown {kind} {shown}; {see}"
    listed = ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, …"
    return f"unknown {kind} {shown}; known: {listed}"
