"""The two tables of a model: their columns, and rows of them from what an engine found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from highwater.checker.engines.layout import Layout, Words
from highwater.checker.engines.native.evaluation import Evaluation
from highwater.checker.tables.columns import column, scalars
from highwater.model.language.model import Model

Numbers = NDArray[Any]

STATE_COLUMNS = ("state", "depth", "initial", "expanded", "steps", "cut")
"""The columns of every table of states. The state's fields come after them, then the properties."""
TRANSITION_COLUMNS = ("source", "target", "action", "parameters", "sentence", "rule", "shortest")
"""The columns of a table of transitions. The properties of steps come after them."""


class StateTable:
    """The table of states: one row for each."""

    def __init__(self, model: Model, layout: Layout) -> None:
        self._model, self._layout = model, layout
        self._type = model.protocol.state
        self._holds = Evaluation(layout, [p.node for p in model.properties])
        taken = set(STATE_COLUMNS)
        self.fields = {name: _free(name, taken) for name in self._type.fields}
        self.properties = {p.name: _free(p.name, taken) for p in model.properties}
        nothing = np.empty(0, dtype=np.int64)
        self.schema = self.rows(
            nothing, nothing, nothing > 0, nothing, nothing, np.empty((0, layout.words), np.uint64)
        ).schema

    def rows(
        self, numbers: Numbers, depth: Numbers, expanded: Numbers, steps: Numbers, cut: Numbers, states: Words
    ) -> pa.Table:
        """Rows for packed states: their numbers, levels (from 1), and how many steps they take or are cut."""
        columns = {
            "state": pa.array(numbers.astype(np.int64)),
            "depth": pa.array(depth.astype(np.int32)),
            "initial": pa.array(depth == 1),
            "expanded": pa.array(np.asarray(expanded, dtype=np.bool_)),
            "steps": pa.array(steps.astype(np.int32)),
            "cut": pa.array(cut.astype(np.int32)),
        }
        values = scalars(self._layout, self._model.leaves, states)
        for name, title in self.fields.items():
            place, type_ = self._type.field(name)
            columns[title] = column(type_, values[place])
        for title, holds in zip(self.properties.values(), self._holds(states), strict=True):
            columns[title] = pa.array(holds)
        return pa.table(columns)

    def violations(self, rows: pa.Table) -> dict[str, int]:
        """How many of some rows violate each property."""
        return _violations(rows, self.properties)


class TransitionTable:
    """The table of transitions: one row for each step from a state to a state."""

    def __init__(self, model: Model) -> None:
        actions = [action.name for action in model.actions]
        rules = list(dict.fromkeys(action.source for action in model.actions))
        place = {name: i for i, name in enumerate(actions)}
        self._actions, self._rules = pa.array(actions, pa.string()), pa.array(rules, pa.string())
        self._action_of = np.array([place[i.action.name] for i in model.instances], dtype=np.int16)
        self._rule_of = np.array([rules.index(i.action.source) for i in model.instances], dtype=np.int16)
        self._sentences = pa.array([i.sentence or str(i) for i in model.instances], pa.string())
        self._parameters = _parameters([dict(i.parameters) for i in model.instances])
        taken = set(TRANSITION_COLUMNS)
        self.properties = {p.name: _free(p.name, taken) for p in model.step_properties}
        nothing = np.empty(0, dtype=np.int64)
        self.schema = self.rows(nothing, nothing, nothing, nothing > 0, nothing.astype(np.uint64)).schema

    def rows(
        self, sources: Numbers, targets: Numbers, instances: Numbers, shortest: Numbers, broken: Numbers
    ) -> pa.Table:
        """Rows for steps: the numbers of both states and of the instance in the model.

        ``broken`` has a bit for each property of steps that a step violates.
        """
        columns = {
            "source": pa.array(sources.astype(np.int64)),
            "target": pa.array(targets.astype(np.int64)),
            "action": _names(self._action_of[instances], self._actions),
        }
        if self._parameters is not None:
            columns["parameters"] = self._parameters.take(pa.array(instances.astype(np.int64)))
        columns["sentence"] = _names(instances.astype(np.int32), self._sentences)
        columns["rule"] = _names(self._rule_of[instances], self._rules)
        columns["shortest"] = pa.array(np.asarray(shortest, dtype=np.bool_))
        for number, title in enumerate(self.properties.values()):
            columns[title] = pa.array(broken >> np.uint64(number) & np.uint64(1) == 0)
        return pa.table(columns)

    def violations(self, rows: pa.Table) -> dict[str, int]:
        """How many of some rows violate each property of steps."""
        return _violations(rows, self.properties)


def _violations(rows: pa.Table, titles: dict[str, str]) -> dict[str, int]:
    return {name: rows.num_rows - (pc.sum(rows[title]).as_py() or 0) for name, title in titles.items()}


def _free(name: str, taken: set[str]) -> str:
    """A title for a column: the name, or where another column has it, the name and an underscore."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _names(numbers: Numbers, names: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers), names)


def _parameters(choices: Iterable[dict[str, Any]]) -> pa.StructArray | None:
    """The parameters of all instances, null where an action has no such parameter; None where none has any."""
    rows = list(choices)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return None
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # actions use the name for different things
            columns.append(pa.array([None if v is None else str(v) for v in values]))
    return pa.StructArray.from_arrays(columns, names=names)
