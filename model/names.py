"""What to say of a name that nothing has. Nothing is imported for it, so that a command can start quickly."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 60
"""So much of such a name is told."""


def unknown(kind: str, name: str, known: Iterable[str], see: str | None = None) -> str:
    """What to say of a name that nothing has: the nearest known one, or all where they are few; else ``see``."""
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
