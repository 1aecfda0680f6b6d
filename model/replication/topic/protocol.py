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
from highwater.model.replication.controller import Controller, elr_index, partition_change
from highwater.model.replication.controller.drawing import TOPIC_DRAWING
from highwater.model.replication.topic.views import FIRST, OWN, SECOND, Views

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
            own, astray = elr_index.entries_after(s.elr_entries[b], was_member, is_member)
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
        records = {place: self.registration(views.of(place), broker, clean) for place in (FIRST, SECOND)}
        for place in written:
            empty = partition_change.is_empty_record(self.t, records[place][0])
            require("something changes in each that is written", ~empty)
        if written == (SECOND,):
            changes = ~partition_change.is_empty_record(self.t, records[FIRST][0])
            in_isr = [v.partition.isr.has(broker) for v in self.views(s)]
            require("who has the broker in the ISR comes first", ~changes | (in_isr[SECOND] & ~in_isr[FIRST]))
        if written == (FIRST,):
            changes = ~partition_change.is_empty_record(self.t, records[SECOND][0])
            in_isr = [v.partition.isr.has(broker) for v in self.views(s)]
            require("who has the broker in the ISR comes first", ~changes | in_isr[FIRST] | ~in_isr[SECOND])
        for place in written:
            record, again, seen_clean = records[place]
            self._restart(views.of(place), broker, clean, seen_clean, record, again)
        if self.p.failovers > 1:
            s.next.restarting = s.restarting.with_(broker)
        views.write_entries()
