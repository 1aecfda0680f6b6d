"""Single steps of a protocol on plain values. An action instance is traced on its first use.

The interpreter runs a model whose instances are all traced. A replay uses only few instances of a large model. So a
Stepper traces one instance at a time, names the guards that refuse a step, and caches results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import (
    Evaluate,
    Node,
    Values,
    compile_conditions,
    compile_nodes,
    values_of,
)
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Instance, state_inputs, trace_instance
from highwater.model.language.protocol import Action, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import Check, tracing
from highwater.model.language.types import Type
from highwater.model.language.values import Value

_T = TypeVar("_T")


class TracedStep:
    """An action instance as functions of a state's scalars. Each function is compiled on its second use.

    One parameter of the action can be an additional input of the functions; ``arguments`` are then its scalars.
    """

    def __init__(
        self, instance: Instance, functions: dict[str, Evaluate | None] | None = None, arguments: Scalars = ()
    ) -> None:
        self.instance, self._arguments = instance, arguments
        self._functions = {} if functions is None else functions

    @cached_property
    def guards(self) -> tuple[str, ...]:
        """The names of the instance's guards."""
        return tuple(g.name for g in self.instance.guards)

    def enabled(self, state: Sequence[int]) -> bool:
        """True if every guard of the instance holds in the state."""
        return all(self._values("enabled", self._guards, state, compile_conditions))

    def refusals(self, state: Sequence[int]) -> tuple[str, ...]:
        """The names of the instance's guards that do not hold in the state."""
        results = self._values("guards", self._guards, state)
        return tuple(name for name, holds in zip(self.guards, results, strict=True) if not holds)

    def after(self, state: Sequence[int]) -> Scalars:
        """The state after the step. Guards and bounds are not checked."""
        return self._written(state, self._values("writes", self._writes, state))

    def result(self, state: Sequence[int]) -> tuple[list[Check], Scalars]:
        """The checks that are true for the step (crossed bounds and errors), and the state after the step."""
        checks = self.instance.checks
        results = self._values("result", lambda: [*(c.node for c in checks), *self._writes()], state)
        left = [c for c, is_left in zip(checks, results, strict=False) if is_left]
        return left, self._written(state, results[len(checks) :])

    def _guards(self) -> list[Node]:
        return [g.node for g in self.instance.guards]

    def _writes(self) -> list[Node]:
        return [w.node for w in self.instance.writes.values()]

    def _written(self, state: Sequence[int], values: Values) -> Scalars:
        after = list(state)
        for leaf, value in zip(self.instance.writes, values, strict=True):
            after[leaf] = int(value)
        return tuple(after)

    def _values(
        self,
        part: str,
        roots: Callable[[], list[Node]],
        state: Sequence[int],
        compiled: Callable[[list[Node]], Evaluate] = compile_nodes,
    ) -> Values:
        scalars = (*state, *self._arguments) if self._arguments else state
        function = self._functions.get(part)
        if function is None:
            if part not in self._functions:
                self._functions[part] = None
                return values_of(roots(), scalars)
            function = self._functions[part] = compiled(roots())
        return function(scalars)


class Stepper:
    """Takes single steps of a protocol.

    * ``types``: maps the name of a protocol attribute that lists parameter values to a type with the same values. The
      type replaces the list, because a look-up in a long list is slow.
    * ``inputs``: maps the name of an action to the name of its parameter with very many values. The action is traced
      once for all values of this parameter.
    """

    def __init__(
        self,
        protocol: Protocol,
        types: Mapping[str, Type] | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        self.protocol = protocol
        self.leaves = protocol.state.leaves("")
        self.at = {leaf.path: number for number, leaf in enumerate(self.leaves)}
        self._nodes = state_inputs(self.leaves)
        self._types, self._lifted = types or {}, inputs or {}
        self._actions: dict[str, Action] = {a.name: a for a in protocol.actions() if protocol.has(a)}
        self._steps: dict[tuple[str, tuple[Any, ...]], TracedStep | None] = {}
        self._traced: dict[
            tuple[str, tuple[Any, ...]], tuple[Instance, dict[str, Evaluate | None]] | None
        ] = {}

    # --- states ---------------------------------------------------------------------------------------

    def encode(self, plain: Mapping[str, Any]) -> Scalars:
        """The scalars of a plain state. Fields that the state type lacks are ignored.

        Raises LanguageError if a field is missing or has an invalid value.
        """
        state = self.protocol.state
        return state.encode({name: value for name, value in plain.items() if name in state.fields})

    def decode(self, state: Sequence[int]) -> dict[str, Any]:
        """The plain state that has these scalars."""
        return self.protocol.state.decode(state)

    def place(self, field: str) -> slice:
        """The positions of a field's scalars in a state. Raises LanguageError if the state has no such field."""
        return self.protocol.state.field(field)[0]

    # --- steps ----------------------------------------------------------------------------------------

    def has(self, action: str) -> bool:
        """True if the action exists under the protocol's rules."""
        return action in self._actions

    def step(self, action: str, values: Sequence[Any] = ()) -> TracedStep | None:
        """The step of an action with these parameter values, in the order of the action's parameters.

        None if the action does not exist, a value is outside its domain, or a guard is always false for these values.
        """
        key = action, tuple(values)
        if key not in self._steps:
            self._steps[key] = self._step(*key) if action in self._actions else None
        return self._steps[key]

    def _step(self, name: str, values: tuple[Any, ...]) -> TracedStep | None:
        action, arguments, key = self._actions[name], (), list(values)
        chosen: dict[str, tuple[Any, Any]] = {}
        for place, (parameter, attribute) in enumerate(action.domains.items()):
            try:
                value = self._lift(attribute, values[place])
            except LanguageError:
                return None
            if parameter == self._lifted.get(name):
                arguments, key[place] = tuple(node.value for node in value.nodes), None
                leaves, start = value.type.leaves(parameter), len(self.leaves)
                value = value.type.wrap(
                    [graph.leaf(start + i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
                )
            chosen[parameter] = value, key[place]
        traced = name, tuple(key)
        if traced not in self._traced:
            instance = trace_instance(self.protocol, self.leaves, self._nodes, action, chosen)
            self._traced[traced] = None if instance is None else (instance, {})
        found = self._traced[traced]
        return None if found is None else TracedStep(*found, arguments)

    def _lift(self, attribute: str, plain: Any) -> Any:
        """The value that an action function takes for a parameter's plain value.

        Raises LanguageError if the value is not in the domain, which the protocol has as ``attribute``.
        """
        domain = self._types.get(attribute) or getattr(self.protocol, attribute)
        if isinstance(domain, Type):
            return domain.lift(plain)
        for value in domain:
            if value == plain if not isinstance(value, Value) else value._plain() == plain:
                return value
        raise LanguageError(f"{plain!r} is none of {attribute}")

    # --- functions of a state -------------------------------------------------------------------------

    def functions(self, stated: Iterable[Callable[[Any, State], Any]]) -> Evaluate:
        """Compile functions of (protocol, state) to one function of a state's scalars, which joins all results."""
        nodes: list[Node] = []
        for one in stated:
            with tracing(self.protocol.on):
                value = one(self.protocol, State(self.protocol.state, self._nodes))
            nodes += [graph.const(int(value), graph.BOOL)] if isinstance(value, bool) else value.nodes
        return compile_nodes(nodes)


class Memo(dict[Hashable, Any]):
    """A cache that is emptied when it holds ``limit`` results."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def of(self, key: Hashable, make: Callable[..., _T], *given: Any) -> _T:
        """The cached result for ``key``. If it is not cached, it is computed by ``make(*given)``."""
        found: _T
        if key in self:
            found = self[key]
            return found
        found = make(*given)
        if len(self) >= self.limit:
            self.clear()
        self[key] = found
        return found
