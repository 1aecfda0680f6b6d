"""What could be asked in an explorer of this protocol: a condition and an expression in its own terms."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model.language.types import Array, Index, IntType, Set, Struct, Type


def examples(state: Struct) -> tuple[str, str]:
    """A condition, and an expression to watch; each empty where the state has nothing that simple."""
    every = sorted(_simple(state, ""), key=lambda found: found[0].count("."))
    of_someone = sorted(every, key=lambda found: "[" not in found[0])
    number = next((f"{path} > {type.low}" for path, type in of_someone if isinstance(type, IntType)), "")
    members = next((f"size({path})" for path, type in every if isinstance(type, Set)), "")
    return number, members or number.partition(" ")[0]


def _simple(type: Type, path: str) -> Iterator[tuple[str, Type]]:
    """The parts of a state that a path leads to without more words than names and indices."""
    if isinstance(type, Struct):
        for name, field in type.fields.items():
            yield from _simple(field, f"{path}.{name}" if path else name)
    elif isinstance(type, Array) and isinstance(type.index, Index):
        yield from _simple(type.element, f"{path}[0]")
    else:
        yield path, type
