"""What a line tells of a state, down to the scalars of the model's state.

A path names a part of the state (``brokers[1].hwm``); a value at a path says what some scalars are, or, where
only a length is known to be large enough, between what they lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import types
from highwater.model.language.errors import LanguageError
from highwater.model.language.messages import MessageKind
from highwater.model.language.model import Scalars
from highwater.traces.reading.errors import printable
from highwater.traces.reading.fields import MAX_TEXT, Place

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d{1,6}|\*)\])*", re.ASCII)
_TOKEN = re.compile(r"\w+|\*", re.ASCII)


@dataclass
class Seen:
    """What is known of a state's scalars, by their number.

    ``between`` holds the least and the greatest value. ``filled`` is what stands where there is no value
    (behind the end of a sequence, inside an option that is none): it follows from the rest.
    """

    between: dict[int, tuple[int, int]] = field(default_factory=dict)
    filled: dict[int, int] = field(default_factory=dict)

    def fits(self, state: Scalars) -> bool:
        """Whether a state agrees with all that is known."""
        return all(low <= state[leaf] <= high for leaf, (low, high) in self.between.items())

    def over(self, state: Scalars) -> Scalars:
        """The state with what is known put in; a scalar that fits already stays."""
        after = list(state)
        for leaf, value in self.filled.items():
            after[leaf] = value
        for leaf, (low, high) in self.between.items():
            after[leaf] = min(max(after[leaf], low), high)
        return tuple(after)


@dataclass(frozen=True)
class StatePart:
    """A part of the state that a path names: its type, its first scalar, and what the path itself supposes."""

    type: types.Type
    start: int
    supposed: tuple[tuple[int, tuple[int, int]], ...] = ()

    @property
    def leaves(self) -> range:
        """The numbers of its scalars."""
        return range(self.start, self.start + self.type.leaf_count)


def parts(state: types.Struct, path: str, place: Place, *, many: bool = False) -> list[StatePart]:
    """The parts that a path names: one, or with ``[*]``, where ``many`` allows it, one for each index.

    Raises TraceError at the place for a path that the state has not.
    """
    if len(path) > MAX_TEXT or not _PATH.fullmatch(path):
        raise place.wrong(f"{printable(path, 60)!r} is no path; write name, name.name or name[0].name")
    found = [StatePart(state, 0)]
    for token in _TOKEN.findall(path):
        if token == "*" and not many:
            raise place.wrong(f"{printable(path, 60)!r} names many parts; name one")
        found = [inner for part in found for inner in _inside(part, token, path, place)]
    return found


def _inside(part: StatePart, token: str, path: str, place: Place) -> Iterator[StatePart]:
    """One step of a path. An option is stepped through: there is a value where something is inside of it."""
    type_, start, supposed = part.type, part.start, part.supposed
    shown = printable(path, 60)
    while isinstance(type_, types.Option) and not _is_number(type_.content_type):
        supposed, start, type_ = (*supposed, (start, (1, 1))), start + 1, type_.content_type
    if isinstance(type_, types.Struct):
        if token not in type_.fields:
            raise place.wrong(f"unknown path {shown!r}: {_fields_of(type_)}")
        scalars, inner = type_.field(token)
        yield StatePart(inner, start + scalars.start, supposed)
    elif isinstance(type_, (types.Array, types.Seq)):
        size = type_.index.size if isinstance(type_, types.Array) else type_.maximum
        if (
            isinstance(type_, types.Array)
            and isinstance(type_.index, types.Enum)
            and token in type_.index.members
        ):
            token = str(type_.index.members.index(token))
        if token != "*" and not token.isdigit():
            raise place.wrong(f"unknown path {shown!r}: {type_} has no field {token!r}")
        if token != "*" and int(token) >= size:
            raise place.wrong(f"unknown path {shown!r}: {token} is outside 0..{size - 1}")
        width = type_.element.leaf_count
        for i in range(size) if token == "*" else [int(token)]:
            if isinstance(type_, types.Array):
                yield StatePart(type_.element, start + i * width, supposed)
            else:
                longer = (*supposed, (start, (i + 1, size)))
                yield StatePart(type_.element, start + 1 + i * width, longer)
    else:
        raise place.wrong(f"unknown path {shown!r}: {type_} has nothing inside")


def read_value(type_: types.Type, start: int, value: Any, place: Place, seen: Seen) -> bool:
    """Add what a value tells; whether it tells all. A struct may lack fields.

    An array is a list, or an object from some of its indices to their elements. Raises TraceError for a value
    that the type cannot hold.
    """
    if isinstance(type_, types.Struct):
        return _read_struct(type_, start, value, place, seen)
    if isinstance(type_, MessageKind):
        return _read_messages(type_, start, value, place, seen)
    if isinstance(type_, types.Array):
        return _read_array(type_, start, value, place, seen)
    if isinstance(type_, types.Seq):
        return _read_sequence(type_, start, value, place, seen)
    if isinstance(type_, types.Option) and not _is_number(type_.content_type):
        seen.between[start] = (0, 0) if value is None else (1, 1)
        if value is not None:
            return read_value(type_.content_type, start + 1, value, place, seen)
        seen.filled.update(enumerate(_zero(type_.content_type), start + 1))
        return True
    scalar = _scalar(type_, value, place)
    seen.between[start] = (scalar, scalar)
    return True


def _read_struct(type_: types.Struct, start: int, value: Any, place: Place, seen: Seen) -> bool:
    if not isinstance(value, dict):
        raise place.wrong(f"expected an object ({type_.name}), not {_shown(value)}")
    whole = len(value) == len(type_.fields)
    for name, item in value.items():
        if name not in type_.fields:
            raise place.wrong(f"a field that is not known: {printable(name, 60)}; {_fields_of(type_)}")
        scalars, inner = type_.field(name)
        whole &= read_value(inner, start + scalars.start, item, place.at(name), seen)
    return whole


def _read_array(type_: types.Array, start: int, value: Any, place: Place, seen: Seen) -> bool:
    size, width = type_.index.size, type_.element.leaf_count
    pairs: Iterable[tuple[int, Any]]
    if isinstance(value, dict):
        if isinstance(type_.index, types.Enum):
            value = {
                str(type_.index.members.index(k)) if k in type_.index.members else k: v
                for k, v in value.items()
            }
        for key in value:
            if not re.fullmatch(r"0|[1-9]\d{0,5}", key, re.ASCII) or int(key) >= size:
                raise place.wrong(f"{printable(key, 60)!r} is no {type_.index.name} of 0..{size - 1}")
        pairs = [(int(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        if len(value) != size:
            raise place.wrong(
                f"{size} elements are expected, one for each {type_.index.name}, not {len(value)}"
            )
        pairs = enumerate(value)
    else:
        raise place.wrong(
            f"expected a list, or an object from {type_.index.name} to value, not {_shown(value)}"
        )
    whole = len(value) == size
    for i, item in pairs:
        whole &= read_value(type_.element, start + i * width, item, place.item(i), seen)
    return whole


def _read_messages(type_: MessageKind, start: int, value: Any, place: Place, seen: Seen) -> bool:
    if not isinstance(value, list):
        raise place.wrong(f"expected a list of messages, not {_shown(value)}")
    try:
        scalars = type_.encode(value)
    except LanguageError as wrong:
        raise place.wrong(printable(wrong.message, 120)) from None
    seen.between.update((start + i, (scalar, scalar)) for i, scalar in enumerate(scalars))
    return True


def _read_sequence(type_: types.Seq, start: int, value: Any, place: Place, seen: Seen) -> bool:
    if not isinstance(value, list):
        raise place.wrong(f"expected a list, not {_shown(value)}")
    if len(value) > type_.maximum:
        bound = f" (bound {type_.bound})" if type_.bound else ""
        raise place.out_of_range(f"{len(value)} elements, where {type_.maximum} have room{bound}")
    seen.between[start] = (len(value), len(value))
    whole, width = True, type_.element.leaf_count
    for i, item in enumerate(value):
        whole &= read_value(type_.element, start + 1 + i * width, item, place.item(i), seen)
    zero = _zero(type_.element)
    for i in range(len(value), type_.maximum):
        seen.filled.update(enumerate(zero, start + 1 + i * width))
    return whole


def _scalar(type_: types.Type, value: Any, place: Place) -> int:
    """The scalar of a value whose type has one."""
    if isinstance(type_, types.Option):
        (leaf,) = type_.content_type.leaves("")
        return leaf.low - 1 if value is None else _scalar(type_.content_type, value, place)
    if isinstance(type_, types.BoolType):
        if not isinstance(value, bool):
            raise place.wrong(f"expected true or false, not {_shown(value)}")
        return int(value)
    if isinstance(type_, types.Enum):
        if not isinstance(value, str) or value not in type_.members:
            raise place.wrong(f"expected one of {', '.join(type_.members)}, not {_shown(value)}")
        return type_.members.index(value)
    if isinstance(type_, types.Set):
        if not isinstance(value, list):
            raise place.wrong(f"expected a list of {type_.index.name}s, not {_shown(value)}")
        bits = 0
        (element,) = type_.index.leaves("")
        for i, item in enumerate(value):
            bit = 1 << (
                _scalar(type_.index, item, place.item(i))
                if isinstance(type_.index, types.Enum)
                else _number(element, item, place.item(i))
            )
            if bits & bit:
                raise place.item(i).wrong(f"{item} stands twice in a set")
            bits |= bit
        return bits
    if isinstance(type_, (types.IntType, types.Index)):
        (leaf,) = type_.leaves("")
        return _number(leaf, value, place)
    raise place.wrong(f"a value of {type_} cannot be read")


def _number(leaf: types.Leaf, value: Any, place: Place) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.wrong(f"expected a whole number, not {_shown(value)}")
    if not leaf.low <= value <= leaf.high:
        bound = f" (bound {leaf.bound})" if leaf.bound else ""
        raise place.out_of_range(f"{printable(value, 40)} is outside {leaf.low}..{leaf.high}{bound}")
    return value


def _is_number(type_: types.Type) -> bool:
    """Whether an option of this type is one scalar: none is the number below the interval."""
    return isinstance(type_, (types.IntType, types.Index, types.Enum))


def _zero(type_: types.Type) -> list[int]:
    return [node.value for node in type_.zero().nodes]


def _fields_of(type_: types.Struct) -> str:
    return f"{type_.name} has {', '.join(type_.fields)}"


def _shown(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", type(None): "null"}
    return kinds.get(type(value)) or printable(repr(value) if isinstance(value, str) else value, 40)
