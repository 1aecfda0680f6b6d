"""The format ``highwater-trace-1``: a run of a model, or of another system, as lines of JSON.

The first line names the protocol; each later line is an observed step (``trace.schema.json``, docs/trace-format.md).
A path names a part of the state (``brokers[1].hwm``). Here a state is a tuple of whole numbers, its scalars; a value
at a path determines scalars or bounds of them. ``LineReader`` finds the action instances that a line can mean, and
the scalars that the line determines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from highwater.model.language import types
from highwater.model.language.errors import LanguageError
from highwater.model.language.initial import Scalars
from highwater.model.language.messages import MessageKind
from highwater.model.language.model import Model
from highwater.model.language.protocol import Action
from highwater.model.language.types import Set, Type, Value
from highwater.traces.reading import INT64, MAX_TEXT, Place, converted, printable, read_lines

# --- format ----------------------------------------------------------------------------------------------

FORMAT = "highwater-trace-1"
MAX_HIDDEN = 100
"""The most unobserved steps that a trace may allow before each line."""
MAX_OBSERVED = 10_000
"""The most paths that a trace may list as observed."""
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Whole = Annotated[int, Meta(ge=-INT64, le=INT64)]


class TraceMeta(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a trace.

    - ``profile`` None means that every rule is on. ``rules`` override the profile.
    - ``start`` is "initial" for a run from an initial state, "given" if line 0 has the first state.
    - ``observed`` are the paths of the state that lines report; UNSET means all.
    - ``hidden_steps`` is the greatest number of unobserved steps before each line.
    """

    format: Literal["highwater-trace-1"]
    protocol: Text
    scenario: Text | None = None
    profile: Text | None = None
    rules: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    start: Literal["initial", "given"] = "initial"
    observed: Annotated[tuple[Text, ...], Meta(max_length=MAX_OBSERVED)] | UnsetType = UNSET
    hidden_steps: Annotated[int, Meta(ge=0, le=MAX_HIDDEN)] = 0
    about: Any = None


class _First(Struct, frozen=True, forbid_unknown_fields=True):
    meta: TraceMeta


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    step: Annotated[int, Meta(ge=0, le=INT64)]
    action: Text | UnsetType = UNSET
    parameters: dict[str, Any] = {}
    state: dict[str, Any] | UnsetType = UNSET
    changes: dict[str, Any] | UnsetType = UNSET
    time_ms: Whole | UnsetType = UNSET
    about: Any = None


class StepLine(_Line, frozen=True, kw_only=True):
    """An observed step as it is in the file. Step 0 is the state at the start.

    ``action`` UNSET stands for any action. ``time_ms`` appears only in reports.
    """

    place: Place

    @property
    def time(self) -> int | None:
        """``time_ms``, or None if the line has no time."""
        return None if self.time_ms is UNSET else self.time_ms


@dataclass(frozen=True)
class RunTrace:
    """An open trace: its first line, and an iterator over the later lines. ``place`` is the place of ``meta``."""

    place: Place
    meta: TraceMeta
    lines: Iterator[StepLine]


def is_run_trace(head: bytes) -> bool:
    """True if a file that begins with ``head`` is a trace in this format: its first line names the format."""
    first = head.split(b"\n", 1)[0]
    return first.lstrip().startswith(b"{") and f'"{FORMAT}"'.encode() in first


def read_run(path: Path) -> RunTrace:
    """Open a trace; its lines are read on demand, in bounded memory.

    Raises TraceError, now or while reading, if the file is not a trace or a line has a wrong form.
    """
    source = read_lines(path)
    number, first = next(source)
    meta = converted(Place(path, number), first, _First).meta
    place = Place(path, number, "meta")
    # msgspec does not name a key of a mapping in its errors, so these values are converted one by one.
    for inner, values, form in (("rules", meta.rules, bool), ("parameters", meta.parameters, Whole)):
        for name, value in values.items():
            converted(place.at(inner).at(printable(name, 60)), value, form)
    return RunTrace(place, meta, _lines(path, source))


def _lines(path: Path, source: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[StepLine]:
    last: int | None = None
    place = Place(path, 1)
    for line_number, raw in source:
        place = Place(path, line_number)
        line = StepLine(**asdict(converted(place, raw, _Line)), place=place)
        expected = (0, 1) if last is None else (last + 1,)
        if line.step not in expected:
            numbers = " or ".join(map(str, expected))
            raise place.at("step").wrong(f"expected {numbers}, not {line.step}: steps are counted one by one")
        last = line.step
        if line.parameters and line.action is UNSET:
            raise place.at("parameters").wrong("parameters of no action")
        if line.step == 0 and line.action is not UNSET:
            raise place.at("action").wrong("step 0 is the state at the start: no action led to it")
        if line.step == 0 and line.changes is not UNSET:
            raise place.at("changes").wrong("step 0 is the state at the start: nothing was before it")
        yield line
    if last is None:
        raise place.wrong("no line follows: the trace has no steps")


# --- observation -----------------------------------------------------------------------------------------

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d{1,6}|\*)\])*", re.ASCII)
_TOKEN = re.compile(r"\w+|\*", re.ASCII)


@dataclass
class Seen:
    """The known values of a state's scalars, by the scalar's number.

    ``between`` has the least and the greatest possible value of a scalar. ``filled`` has the fixed value of a scalar
    without a meaning: beyond the end of a sequence, or inside an option that is none.
    """

    between: dict[int, tuple[int, int]] = field(default_factory=dict)
    filled: dict[int, int] = field(default_factory=dict)

    def fits(self, state: Scalars) -> bool:
        """True if a state agrees with all known values."""
        return all(low <= state[leaf] <= high for leaf, (low, high) in self.between.items())

    def over(self, state: Scalars) -> Scalars:
        """The state, changed to agree with all known values: other scalars keep their value."""
        after = list(state)
        for leaf, value in self.filled.items():
            after[leaf] = value
        for leaf, (low, high) in self.between.items():
            after[leaf] = min(max(after[leaf], low), high)
        return tuple(after)


@dataclass(frozen=True)
class StatePart:
    """A part of the state that a path names: its type, its first scalar, and the bounds that the path implies.

    ``supposed`` has these bounds as pairs: the number of a scalar, and its least and greatest value.
    """

    type: types.Type
    start: int
    supposed: tuple[tuple[int, tuple[int, int]], ...] = ()

    @property
    def leaves(self) -> range:
        """The numbers of the part's scalars."""
        return range(self.start, self.start + self.type.leaf_count)


def parts(state: types.Struct, path: str, place: Place, *, many: bool = False) -> list[StatePart]:
    """The parts of the state that a path names: one, or with ``many`` one for each index of ``[*]``.

    Raises TraceError at the place if the state has no such path.
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
    """The inner parts that a path's next token names. A path into an option implies that the option has a value."""
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
    """Add the scalars that a value determines to ``seen``; returns True if these are all scalars of the type.

    A struct may lack fields. An array is a list, or an object from some of its indices to their elements. Raises
    TraceError for a value that the type cannot hold.
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
    """The scalar of a value whose type has only one scalar."""
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
    """True if an option of this type is one scalar, in which the number below the type's range means none."""
    return isinstance(type_, (types.IntType, types.Index, types.Enum))


def _zero(type_: types.Type) -> list[int]:
    return [node.value for node in type_.zero().nodes]


def _fields_of(type_: types.Struct) -> str:
    return f"{type_.name} has {', '.join(type_.fields)}"


def _shown(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", type(None): "null"}
    return kinds.get(type(value)) or printable(repr(value) if isinstance(value, str) else value, 40)


# --- steps -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A line in the model's terms.

    - ``seen``: the known values of the state after the line.
    - ``kept``: the scalars that did not change since the previous line. Only a line with ``changes`` shows them.
    - ``numbers``: the action instances that the line can mean. If there are none, ``absent`` is the reason.
    - ``whole``: the state after the line, if the line gives the whole state.
    - ``all_changes``: True if the line gives every change of the whole state.
    """

    line: StepLine
    seen: Seen
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    absent: str | None
    whole: Scalars | None
    all_changes: bool

    def basis(self, state: Scalars) -> Scalars:
        """The values that a state has for the scalars in ``kept``."""
        return tuple(state[leaf] for leaf in self.kept)

    def fits(self, basis: Scalars, state: Scalars) -> bool:
        """True if a state fits this line; ``basis`` are the values of ``kept`` at the previous line."""
        return self.seen.fits(state) and basis == self.basis(state)

    def recorded(self, basis: Scalars, state: Scalars) -> Scalars:
        """``state``, changed to agree with all values that the line records or declares unchanged (``basis``).

        The scalars that differ from ``state`` are those in which the model differs from the recording.
        """
        after = list(state)
        for leaf, value in zip(self.kept, basis, strict=True):
            after[leaf] = value
        return self.seen.over(tuple(after))


class LineReader:
    """Translates the lines of one trace into a model's terms. Raises TraceError for unknown names and values."""

    def __init__(self, model: Model, trace: RunTrace) -> None:
        self.model = model
        self._all = tuple(range(len(model.instances)))
        self._actions = {action.name: action for action in model.protocol.actions()}
        self._traced = {action.name for action in model.actions}
        self._observed = self._observed_leaves(trace)
        self._keys = [
            {name: _key(value) for name, value in instance.parameters.items()} for instance in model.instances
        ]
        self._domains: dict[tuple[str, str], tuple[frozenset[str], bool]] = {}
        self._meant = lru_cache(maxsize=1024)(self._instances)

    def read(self, line: StepLine) -> Expected:
        """A line in terms of the model's action instances and scalars."""
        numbers, absent = self._all, None
        if line.action is not UNSET:
            numbers = self._numbers(line, line.action)
            absent = None if numbers else self._why_absent(line.action)
        seen = Seen()
        whole = False
        if line.state is not UNSET:
            place = line.place.at("state")
            whole = read_value(self.model.protocol.state, 0, line.state, place, seen)
            self._check_observed(seen, place)
        named: set[int] = set()
        if line.changes is not UNSET:
            for path, value in line.changes.items():
                self._change(path, value, line.place.at("changes"), seen, named)
        kept: tuple[int, ...] = ()
        if line.changes is not UNSET:
            observed = range(len(self.model.leaves)) if self._observed is None else sorted(self._observed)
            kept = tuple(leaf for leaf in observed if leaf not in named)
        return Expected(
            line=line,
            seen=seen,
            kept=kept,
            numbers=numbers,
            absent=absent,
            whole=seen.over(tuple(leaf.low for leaf in self.model.leaves)) if whole else None,
            all_changes=line.changes is not UNSET and self._observed is None,
        )

    # --- actions --------------------------------------------------------------------------------------

    def _numbers(self, line: StepLine, name: str) -> tuple[int, ...]:
        action = self._actions.get(name)
        if action is None:
            known = ", ".join(sorted(self._actions))
            raise line.place.at("action").wrong(f"unknown action {printable(name, 60)!r}; there are {known}")
        place = line.place.at("parameters")
        chosen = []
        for parameter, value in line.parameters.items():
            if parameter not in (names := self.model.parameters_of(action)):
                known = ", ".join(names) or "none"
                raise place.wrong(
                    f"{name} has no parameter {printable(parameter, 60)!r}; its parameters: {known}"
                )
            chosen.append((parameter, self._choice(action, parameter, value, place.at(parameter))))
        return self._meant(name, tuple(sorted(chosen)))

    def _choice(self, action: Action, parameter: str, value: Any, place: Place) -> str:
        """The key of a parameter's value, by which instances are looked up.

        Raises TraceError if the parameter has no such value.
        """
        if (action.name, parameter) not in self._domains:
            self._domains[action.name, parameter] = _domain(self.model, action, parameter)
        keys, of_sets = self._domains[action.name, parameter]
        if of_sets and isinstance(value, list) and all(isinstance(item, int) for item in value):
            value = sorted(value)
        try:
            key = _key(value)
        except RecursionError:
            raise place.wrong("nested too deeply") from None
        if key not in keys:
            few = ", ".join(sorted(keys)[:12]) + (", …" if len(keys) > 12 else "")
            raise place.wrong(f"{printable(key, 40)} is none of {few}")
        return key

    def _instances(self, action: str, chosen: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        return tuple(
            number
            for number, instance in enumerate(self.model.instances)
            if instance.action.name == action
            and all(self._keys[number].get(name) == key for name, key in chosen)
        )

    def _why_absent(self, name: str) -> str:
        rule = self._actions[name].rule
        if name not in self._traced and rule is not None:
            return f"the rule {rule} is off, without which there is no {name}"
        return "never possible with these parameters and rules"

    # --- state ----------------------------------------------------------------------------------------

    def _observed_leaves(self, trace: RunTrace) -> frozenset[int] | None:
        if trace.meta.observed is UNSET:
            return None
        place = trace.place.at("observed")
        found: set[int] = set()
        for i, path in enumerate(trace.meta.observed):
            for part in parts(self.model.protocol.state, path, place.item(i), many=True):
                found.update(part.leaves)
        return frozenset(found)

    def _check_observed(self, seen: Seen, place: Place) -> None:
        """Raise TraceError if a line has a value that the first line does not declare as observed."""
        for leaf in seen.between:
            if self._observed is not None and leaf not in self._observed:
                path = self.model.leaves[leaf].path.removesuffix("?").removesuffix(".length")
                raise place.wrong(f"{path} is none of the observed paths of the first line")

    def _change(self, path: str, value: Any, place: Place, seen: Seen, named: set[int]) -> None:
        """Add the new value at a path to ``seen``, and the path's scalars to ``named``."""
        (part,) = parts(self.model.protocol.state, path, place)
        shown = printable(path, 60)
        place = Place(place.path, place.line, f"{place.field}[{shown!r}]")
        if not named.isdisjoint(part.leaves):
            raise place.wrong("overlaps another change of this line")
        if self._observed is not None and not self._observed.issuperset(part.leaves):
            raise place.wrong("is none of the observed paths of the first line")
        named.update(part.leaves)
        if not self._whole_value(part, value, place, seen):
            raise place.wrong("the whole value is needed; name a field by its own path")

    def _whole_value(self, part: StatePart, value: Any, place: Place, seen: Seen) -> bool:
        inner = Seen()
        whole = read_value(part.type, part.start, value, place, inner)
        for leaf, (low, high) in (*part.supposed, *inner.between.items()):
            before = seen.between.get(leaf, (low, high))
            seen.between[leaf] = both = max(low, before[0]), min(high, before[1])
            if both[0] > both[1]:
                raise place.wrong("the line says something else of this, too")
        seen.filled.update(inner.filled)
        return whole


def _domain(model: Model, action: Action, parameter: str) -> tuple[frozenset[str], bool]:
    """The keys of all values that a parameter can have, and True if the values are sets."""
    if parameter not in action.domains:  # the action chooses the value itself
        chosen = [i.parameters for i in model.instances if i.action is action and parameter in i.parameters]
        return frozenset(_key(parameters[parameter]) for parameters in chosen), False
    domain = getattr(model.protocol, action.domains[parameter])
    values = list(domain.constants() if isinstance(domain, Type) else domain)
    plain = [
        v.type.decode([n.value for n in v.nodes]) if isinstance(v, Value) and v.type else v for v in values
    ]
    of_sets = any(isinstance(v, Value) and isinstance(v.type, Set) for v in values)
    return frozenset(_key(value) for value in plain), of_sets


def _key(value: Any) -> str:
    """A Python value as text, in which 1 and true differ."""
    return json.dumps(value, sort_keys=True)
