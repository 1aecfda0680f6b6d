"""Messages about unknown names. This module imports nothing, so that a command starts quickly."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 60
"""The length to which a message shortens an unknown name."""


def unknown(kind: str, name: str, known: Iterable[str], see: str | None = None) -> str:
    """The message for an unknown name, with the most similar known name.

    If none is similar, the message lists the known names if they are few, or else refers to ``see``.
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
