"""The controller and a topic of two partitions on the same brokers; the actions are those of ``controller/``.

This module adds no rule. An action about a partition applies to one of the two. An action about a broker, or about the
topic's configuration, applies to both in one batch; only a registration can be written in part. Two effects cross
partitions: min ISR is computed from the first partition's replicas, and index entries of the second partition can move
to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from types import SimpleNamespace
from typing import Any

from highwater.model.language import (
    Action,
    Index,
    Number,
    State,
    Struct,
    StructValue,
    Truth,
    action,
    any_of,
    require,
)
from highwater.model.language.state import AbsentField, Next
from highwater.model.replication.controller import Controller, registrations
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.drawing import TOPIC_DRAWING

FIRST, SECOND = 0, 1
"""The partitions of the topic."""

OWN = ("partition", "complete", "diminished", "needless", "elr_entries", "requested")
"""The fields that exist for each partition: the first partition's in the state, the second's below ``second``."""

_OF_ONE = frozenset({
    "alter_partition", "lose_directory", "assign_directory", "elect_leader", "maybe_elect_unclean_leader",
    "maybe_balance_leader", "recover_uncleanly", "designate_leader", "elect_by_log", "reassign", "cancel_reassignment",
})  # fmt: skip
_OF_BOTH = frozenset({
    "fence", "unfence", "start_controlled_shutdown", "register", "register_undamaged", "fence_again", "unregister",
    "change_min_isr", "change_elr_level",
})  # fmt: skip
_LEFT_OUT = frozenset({"change_first_partition"})
"""The action that stands for a first partition outside the model; here the first partition is in the model."""


def _of_topic(one: Action) -> Action:
    if one.name in _OF_ONE:
        says = f"partition {{partition}}: {one.says}"
        return replace(
            one,
            function=_for_one(one.function),
            domains={"partition": "place", **one.domains},
            says=says,
        )
    if one.name in _OF_BOTH:
        return replace(one, function=_for_both(one.function))
    return one


def _for_one(step: Callable[..., None]) -> Callable[..., None]:
    @wraps(step)
    def taken(self: Topic, s: State, partition: Number, **choice: Any) -> None:
        view = self.views(s)[int(partition)]
        step(self, view, **choice)
        view.index.write(s)

    return taken


def _for_both(step: Callable[..., None]) -> Callable[..., None]:
    @wraps(step)
    def taken(self: Topic, s: State, **choice: Any) -> None:
        views = self.views_in_one_step(s)
        for view in views:
            step(self, view, **choice)
        views[FIRST].index.write(s)

    return taken


class IndexEntries:
    """The changes of the ELR index in one step.

    ``own`` has each partition's entries by (partition, broker). ``astray`` has the entries that move from the second
    partition to the first, by broker.
    """

    def __init__(self) -> None:
        self.own: dict[tuple[int, int], Number] = {}
        self.astray: dict[int, list[Number]] = {}

    def write(self, s: State) -> None:
        """Write the changed index into the state after the step."""
        for broker in sorted({broker for _, broker in self.own} | set(self.astray)):
            first = self.own.get((FIRST, broker), s.elr_entries[broker])
            for more in self.astray.get(broker, []):
                first = first + more
            s.next.elr_entries[broker] = first
            if (SECOND, broker) in self.own:
                s.next.second.elr_entries[broker] = self.own[SECOND, broker]


class Topic(Controller):
    """A topic of two partitions as the controller sees it, with arbitrary actions of brokers and the operator."""

    name = "replication.topic"
    drawing = TOPIC_DRAWING

    def define(self) -> Struct:
        """Define the state: the state of one partition, and the fields that the second partition has of its own."""
        one = super().define()
        self.one = one
        self.place = Index("partition", 2)
        self.written_choice = ((FIRST,), (SECOND,), (FIRST, SECOND))
        fields = {name: one.declared_fields[name] for name in one.fields}
        second = Struct("SecondPartition", **{name: fields[name] for name in OWN if name in fields})
        return Struct("State", **fields, second=second)

    def initial(self) -> list[dict[str, Any]]:
        """The initial state: one partition as in the controller's protocol, and the second partition.

        The second partition's replica list starts with broker 1.
        """
        (one,) = super().initial()
        replicas = [(broker + 1) % self.p.brokers for broker in range(self.factor)]
        second = {**one, "partition": self.t.initial_partition(replicas, replicas), "complete": replicas}
        return [{**one, "second": {name: second[name] for name in OWN if name in second}}]

    @classmethod
    def actions(cls) -> list[Action]:
        """The controller's actions, each for one of the partitions or for both."""
        return [_of_topic(a) for a in super().actions() if a.name not in _LEFT_OUT]

    def views(self, s: State) -> list[Any]:
        """For each partition, a state with only that partition, as the controller's actions and properties take it.

        Its ``next`` has the shared fields after the step, ``own_next`` the partition's own fields, and ``whole`` is
        the topic's state.
        """
        index = IndexEntries()
        return [self._view(s, place, s.next, index) for place in (FIRST, SECOND)]

    def views_in_one_step(self, s: State) -> list[Any]:
        """The views of both partitions for one step: only the first partition's view writes the shared fields."""
        index = IndexEntries()
        return [self._view(s, FIRST, s.next, index), self._view(s, SECOND, AbsentField(self.one), index)]

    def _view(self, s: State, place: int, shared: Next, index: IndexEntries) -> Any:
        owner = s.second if place == SECOND else s
        absent = {name: kind.zero() for name, kind in self.one.absent.items()}
        fields = absent | {name: getattr(owner if name in OWN else s, name) for name in self.one.fields}
        if place == SECOND:
            fields["first_partition_replicas"] = s.partition.replicas.length
        own = s.next.second if place == SECOND else s.next
        return SimpleNamespace(**fields, next=shared, own_next=own, whole=s, place=place, index=index)

    def own_next(self, s: Any) -> Any:
        """The partition's own fields after the step."""
        return s.own_next

    # --- effects across partitions --------------------------------------------------------------------

    def controllers_min_isr(self, s: Any) -> Number:
        """The effective min ISR that the controller uses: with K10 the first partition's, else the partition's own."""
        return super().controllers_min_isr(s) if self.on("min_isr_by_first_partition") else self.min_isr(s)

    def leads(self, s: Any, broker: Number) -> Truth:
        """True if a broker leads a partition of the topic or, with ``leads_elsewhere``, possibly another partition."""
        leaders = (s.whole.partition.leader, s.whole.second.partition.leader)
        return any_of(leader.is_(broker) for leader in leaders) | self.p.leads_elsewhere

    def index(self, s: Any, new: StructValue) -> None:
        """Note the changes of the index of ELR members. Entries that go astray move to the first partition."""
        for b in self.t.broker:
            was_member, is_member = s.partition.elr.has(b), new.elr.has(b)
            own, astray = registrations.elr_index_entries(s.elr_entries[b], was_member, is_member)
            s.index.own[s.place, int(b)] = own
            s.index.astray.setdefault(int(b), []).append(astray)

    @action(
        "K14",
        rule="registration_may_be_split",
        says="broker {broker} registers (clean: {clean}), and the controller fails when the changes of partitions "
        "{written} are written",
        broker="broker",
        clean="clean_choice",
        written="written_choice",
    )
    def register_in_part(self, s: State, broker: Number, clean: Truth, written: tuple[int, ...]) -> None:
        """K14. The controller writes a registration's changes of the ``written`` partitions, but not the registration.

        The broker registers again.
        """
        require("the controller fails", bool(self.p.failovers))
        views = self.views_in_one_step(s)
        effects = [self.registration(view, broker, clean) for view in views]
        changes = [~is_empty_record(self.t, effect.record) for effect in effects]
        for place in written:
            require("something changes in each that is written", changes[place])
        first_in_isr, second_in_isr = (view.partition.isr.has(broker) for view in views)
        comes_first = "the partition that has the broker in the ISR comes first"
        if written == (SECOND,):
            require(comes_first, ~changes[FIRST] | (second_in_isr & ~first_in_isr))
        if written == (FIRST,):
            require(comes_first, ~changes[SECOND] | first_in_isr | ~second_in_isr)
        for place in written:
            self._changes_of_registration(
                views[place], broker, clean, effects[place], online=self.t.brokers.zero()
            )
        if self.p.failovers > 1:
            s.next.restarting = s.restarting.with_(broker)
        views[FIRST].index.write(s)
