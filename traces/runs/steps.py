"""What the lines of a trace mean to a model: which actions can be meant, and which states fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from highwater.model.language.model import Model, Scalars
from highwater.model.language.protocol import Action
from highwater.model.language.types import Set, Type
from highwater.model.language.values import Value
from highwater.traces.reading.errors import printable
from highwater.traces.reading.fields import Place
from highwater.traces.runs.format import StepLine, TraceMeta
from highwater.traces.runs.observation import Seen, StatePart, parts, read_value


@dataclass(frozen=True)
class Expected:
    """A line as the model understands it.

    ``seen`` is what the state after it must agree with. ``kept`` are the scalars that the line says have not
    changed since the line before (none, where it has no ``changes``). ``numbers`` are the instances of the model
    that can be meant; where there are none, ``absent`` says why. ``whole`` is the state where the line holds all
    of it; ``all_changes`` whether it tells all that changed of the whole state.
    """

    line: StepLine
    seen: Seen
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    absent: str | None
    whole: Scalars | None
    all_changes: bool

    def basis(self, state: Scalars) -> Scalars:
        """The values, in the state at the line before, of what must not have changed."""
        return tuple(state[leaf] for leaf in self.kept)

    def fits(self, basis: Scalars, state: Scalars) -> bool:
        """Whether a state can be the one after this line."""
        return self.seen.fits(state) and basis == self.basis(state)

    def recorded(self, basis: Scalars, state: Scalars) -> Scalars:
        """The state with everything put in that the line says: what differs is what the model has otherwise."""
        after = list(state)
        for leaf, value in zip(self.kept, basis, strict=True):
            after[leaf] = value
        return self.seen.over(tuple(after))


class Reader:
    """Reads the lines of one trace with a model. Raises TraceError for every name and value that it has not."""

    def __init__(self, model: Model, meta: TraceMeta) -> None:
        self.model = model
        self._all = tuple(range(len(model.instances)))
        self._actions = {action.name: action for action in model.protocol.actions()}
        self._traced = {action.name for action in model.actions}
        self._observed = self._observed_leaves(meta)
        self._keys = [
            {name: _key(value) for name, value in instance.parameters.items()} for instance in model.instances
        ]
        self._domains: dict[tuple[str, str], tuple[frozenset[str], bool]] = {}
        self._meant = lru_cache(maxsize=1024)(self._instances)

    def read(self, line: StepLine) -> Expected:
        """A line with the model's names and values."""
        numbers, absent = self._all, None
        if line.action is not None:
            numbers = self._numbers(line, line.action)
            absent = None if numbers else self._why_absent(line.action)
        seen = Seen()
        whole = False
        if line.has_state:
            place = line.place.at("state")
            whole = read_value(self.model.protocol.state, 0, line.state, place, seen)
            self._check_observed(seen, place)
        named: set[int] = set()
        if line.changes is not None:
            for path, value in line.changes.items():
                self._change(path, value, line.place.at("changes"), seen, named)
        kept: tuple[int, ...] = ()
        if line.changes is not None:
            observed = range(len(self.model.leaves)) if self._observed is None else sorted(self._observed)
            kept = tuple(leaf for leaf in observed if leaf not in named)
        return Expected(
            line=line,
            seen=seen,
            kept=kept,
            numbers=numbers,
            absent=absent,
            whole=seen.over(tuple(leaf.low for leaf in self.model.leaves)) if whole else None,
            all_changes=line.changes is not None and self._observed is None,
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
        """A parameter's value as the key that instances are found by."""
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

    def _observed_leaves(self, meta: TraceMeta) -> frozenset[int] | None:
        if meta.observed is None:
            return None
        place = meta.place.at("observed")
        found: set[int] = set()
        for i, path in enumerate(meta.observed):
            for part in parts(self.model.protocol.state, path, place.item(i), many=True):
                found.update(part.leaves)
        return frozenset(found)

    def _check_observed(self, seen: Seen, place: Place) -> None:
        """A line holds what the first line says is observed, and nothing else."""
        for leaf in seen.between:
            if self._observed is not None and leaf not in self._observed:
                path = self.model.leaves[leaf].path.removesuffix("?").removesuffix(".length")
                raise place.wrong(f"{path} is none of the observed paths of the first line")

    def _change(self, path: str, value: Any, place: Place, seen: Seen, named: set[int]) -> None:
        """Add one change; ``named`` collects the scalars that changes are about."""
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
    """The keys of all values that a parameter can have, and whether they are sets."""
    if parameter not in action.domains:  # a choice that the action makes itself
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
    """A plain value as text, in which 1 and true differ."""
    return json.dumps(value, sort_keys=True)
