"""A request to Kafka's controller: its operation for the bridge, and the answer that the model expects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import Number, State, Truth, as_bool
from highwater.model.replication.controller import Controller

Operation = dict[str, Any]
NO_ACTION = "(no action)"
ANSWER_FIELDS = ("caught up", "fenced", "in controlled shutdown", "may shut down", "not as the state")
"""Fields of answers, by the bridge's bits: a heartbeat's; and if ids or other fields contradict the state."""


@dataclass(frozen=True)
class ExpectedAnswer:
    """The answer that the model expects: ``error`` is the error that the sender should receive.

    ``described`` is false if the model does not describe the controller's reaction; then nothing is compared.
    ``says`` has the other fields of an answer, one for each of ANSWER_FIELDS; empty if all are false.
    """

    error: Number
    described: Truth = field(default_factory=lambda: as_bool(True))
    says: tuple[Truth, ...] = ()


Expect = Callable[[Controller, State], ExpectedAnswer]
Event = Callable[[Controller, State, State], ExpectedAnswer]
"""An event that is decided on the first State and changes the second State. It returns the expected answer."""


@dataclass(frozen=True)
class KafkaRequest:
    """A request to Kafka's controller, or an event. Its operation is the same in every state.

    ``action`` is the corresponding action instance, by name and plain parameters; None if no action corresponds.
    """

    operation: Operation
    expect: Expect
    action: tuple[str, tuple[Any, ...]] | None = None
    needs: frozenset[str] = frozenset()
    """Guards of the action without which the request cannot occur: where one is false, nothing is compared."""
    second: Event | None = None
    """The second event of a request with two events (a heartbeat that also reports a failed directory)."""
    then: Event | None = None
    """An event that always comes after the request (the end of the session that a heartbeat extends)."""

    @property
    def kind(self) -> str:
        """The group of the request in reports.

        It is the action's name or, without an action, the operation's name and NO_ACTION. For two events, it is the
        operation's name and flags.
        """
        if self.second is not None:
            flags = [name for name, value in self.operation.items() if value is True]
            return f"{self.operation['name']} {'+'.join(flags)}"
        return self.action[0] if self.action else f"{self.operation['name']} {NO_ACTION}"

    def lacks(self, fields: Collection[str]) -> bool:
        """True if the request sets one of ``fields`` to a value other than true, which Kafka has without the field."""
        return any(self.operation.get(name, True) is not True for name in fields)

    @property
    def orders(self) -> list[list[Event]]:
        """The ways to carry out the request's events, each as a list. For two events: two orders, and both together.

        In an order, the later event is decided on the state after the earlier one; together, both on the state before.
        """

        def first(p: Controller, before: State, s: State) -> ExpectedAnswer:
            return self.expect(p, s)

        if self.second is None and self.then is None:
            return [[first]]
        together = self.second or self.then
        assert together is not None

        def other(p: Controller, before: State, s: State) -> ExpectedAnswer:
            return together(p, s, s)

        return [[first, other]] if self.then else [[first, other], [other, first], [first, together]]


def plain_key(value: Any) -> Any:
    """A parameter's plain value in a hashable form."""
    return tuple(map(plain_key, value)) if isinstance(value, (list, tuple)) else value


def instance_key(name: str, parameters: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The action ``name`` with these parameters, in the form of ``KafkaRequest.action``."""
    return name, tuple(plain_key(value) for value in parameters.values())
