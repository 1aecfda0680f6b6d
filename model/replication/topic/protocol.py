"""The controller and a topic of two partitions: the steps of ``controller/``, over brokers that both have.

No rule and no step is stated here. A step about a partition is taken for one of the two, a step about a broker, or
about the topic's configuration, for both at once, as they are one batch; only a registration can be written in part.
What crosses partitions follows: min ISR goes by the first one's replicas, and the controller's index of ELR members
can send entries of the second one to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
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
"""What each partition has of its own: of the first in the state itself, of the second below ``second``."""

_OF_ONE = frozenset({
    "alter_partition", "lose_directory", "assign_directory", "elect_leader", "maybe_elect_unclean_leader",
    "maybe_balance_leader", "recover_uncleanly", "designate_leader", "elect_by_log", "reassign", "cancel_reassignment",
})  # fmt: skip
_OF_BOTH = frozenset({
    "fence", "unfence", "start_controlled_shutdown", "register", "register_undamaged", "fence_again", "unregister",
    "change_min_isr", "change_elr_level",
})  # fmt: skip
_LEFT_OUT = frozenset({"change_first_partition"})
"""What stands for the first partition where there is only another one."""


def _of_topic(one: Action) -> Action:
    """An action of the controller as one of the topic."""
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
        views = Views(s)
        step(self, views.of(int(partition)), **choice)
        views.write_entries()

    return taken


def _for_both(step: Callable[..., None]) -> Callable[..., None]:
    @wraps(step)
    def taken(self: Topic, s: State, **choice: Any) -> None:
        views = Views(s, both=True)
        for place in (FIRST, SECOND):
            step(self, views.of(place), **choice)
        views.write_entries()

    return taken


class Views:
    """The states that the controller's steps are taken in: one for each partition that a step concerns.

    The controller's protocol states its steps for a state with one partition. A view looks like such a state: what
    belongs to a partition is this partition's, all else is the whole state's. In a step that concerns ``both``
    partitions, what they share is written by the first one's view; what the second one's would write is the same.
    ``astray`` collects index entries that go from the second partition to the first one.
    """

    def __init__(self, state: State, both: bool = False) -> None:
        self.state, self.both = state, both
        self.entries: dict[tuple[int, int], Number] = {}
        self.astray: dict[int, list[Number]] = {}

    def of(self, place: int) -> Any:
        """The view of a partition, to be used as a state."""
        return View(self, place)

    def entries_before(self, place: int, broker: int) -> Number:
        """The entries of a broker for a partition in the controller's index, before the step."""
        owner = self.state if place == FIRST else self.state.second
        entries: Number = owner.elr_entries[broker]
        return entries

    def write_entries(self) -> None:
        """Write what became of the index of ELR members, once all partitions concerned have told."""
        state = self.state
        brokers = sorted({broker for _, broker in self.entries} | set(self.astray))
        for broker in brokers:
            first = self.entries.get((FIRST, broker), self.entries_before(FIRST, broker))
            for more in self.astray.get(broker, []):
                first = first + more
            state.next.elr_entries[broker] = first
            if (SECOND, broker) in self.entries:
                state.next.second.elr_entries[broker] = self.entries[SECOND, broker]


class View:
    """A state with one partition: this one."""

    def __init__(self, views: Views, place: int) -> None:
        self.views, self.place = views, place

    def __getattr__(self, name: str) -> Any:
        """A field of the state before the step."""
        state, second = self.views.state, self.place == SECOND
        if name == "first_partition_replicas":
            return state.partition.replicas.length if second else state.first_partition_replicas
        return getattr(state.second if second and name in OWN else state, name)

    @property
    def next(self) -> Any:
        """Where the fields after the step are written."""
        return NextOfView(self)


class NextOfView:
    """The state after the step, in the eyes of one partition."""

    def __init__(self, view: View) -> None:
        self.__dict__["_view"] = view

    def __getattr__(self, name: str) -> Next:
        """A field of the state after the step; nowhere where another view writes it."""
        view: View = self.__dict__["_view"]
        views, place = view.views, view.place
        after = views.state.next
        if name in OWN:
            return getattr(after.second if place == SECOND else after, name)
        if place == SECOND and views.both:
            return AbsentField(getattr(after, name)._type)
        return getattr(after, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Write a field."""
        self.__getattr__(name)._write(value)


class Topic(Controller):
    """A topic of two partitions in the eyes of the controller, under every history of brokers and operator."""

    name = "replication.topic"
    drawing = TOPIC_DRAWING

    def define(self) -> Struct:
        """The state of one partition, and what the second one has of its own."""
        one = super().define()
        self.one = one
        self.place = Index("partition", 2)
        self.written_choice = ((FIRST,), (SECOND,), (FIRST, SECOND))
        own = {name: one.fields[name] for name in OWN if name in one.fields}
        meanings = {name: one.meanings[name] for name in one.fields if name in one.meanings}
        second = Struct("SecondPartition", **own).about(**{n: meanings[n] for n in own if n in meanings})
        return Struct("State", **one.fields, second=second).about(**meanings)

    def initial(self) -> list[dict[str, Any]]:
        """As with one partition; the replicas of the second begin with the next broker."""
        (one,) = super().initial()
        replicas = [(broker + 1) % self.p.brokers for broker in range(self.factor)]
        second = {**one, "partition": self.t.initial_partition(replicas, replicas), "complete": replicas}
        return [{**one, "second": {name: second[name] for name in OWN if name in self.one.fields}}]

    @classmethod
    def actions(cls) -> list[Action]:
        """The controller's actions, for one of the partitions or for both."""
        return [_of_topic(a) for a in super().actions() if a.name not in _LEFT_OUT]

    def views(self, s: State) -> list[Any]:
        """The state in the eyes of each partition."""
        return [Views(s).of(place) for place in (FIRST, SECOND)]

    # --- what crosses partitions ----------------------------------------------------------------------

    def controllers_min_isr(self, s: Any) -> Number:
        """The effective min ISR that the controller reckons with: by the first partition (K10), or by its own."""
        return super().controllers_min_isr(s) if self.on("min_isr_by_first_partition") else self.min_isr(s)

    def leads(self, s: Any, broker: Number) -> Truth:
        """Whether a broker leads one of the partitions, or another one."""
        state = s.views.state
        return any_of(v.partition.leader.is_(broker) for v in self.views(state)) | bool(
            self.p.leads_elsewhere
        )

    def index(self, s: Any, new: StructValue) -> None:
        """The index of ELR members: what goes astray becomes the first partition's."""
        views, place = s.views, s.place
        for b in self.t.broker:
            number = int(b)
            was_member, is_member = s.partition.elr.has(b), new.elr.has(b)
            own, astray = registrations.elr_index_entries(s.elr_entries[b], was_member, is_member)
            views.entries[place, number] = own
            views.astray.setdefault(number, []).append(astray)

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
        """Some of what belongs to a registration is written, in its order, and the registration is not."""
        require("the controller fails", bool(self.p.failovers))
        views = Views(s, both=True)
        found = {place: self.registration(views.of(place), broker, clean) for place in (FIRST, SECOND)}
        changes = {place: ~is_empty_record(self.t, found[place].record) for place in (FIRST, SECOND)}
        for place in written:
            require("something changes in each that is written", changes[place])
        first_in_isr, second_in_isr = (v.partition.isr.has(broker) for v in self.views(s))
        comes_first = "the partition that has the broker in the ISR comes first"
        if written == (SECOND,):
            require(comes_first, ~changes[FIRST] | (second_in_isr & ~first_in_isr))
        if written == (FIRST,):
            require(comes_first, ~changes[SECOND] | first_in_isr | ~second_in_isr)
        for place in written:
            self._changes_of_registration(views.of(place), broker, clean, found[place])
        if self.p.failovers > 1:
            s.next.restarting = s.restarting.with_(broker)
        views.write_entries()
