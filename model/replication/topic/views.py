"""A topic's state in the eyes of one of its partitions, so that the controller's steps can be taken for each of them.

The controller's protocol states its steps for a state with one partition. A view looks like such a state: what belongs
to a partition is this partition's, all else is the whole state's. In a step that concerns several partitions each has a
view, and what they share is written by the first one's; what the second one's would write there is the same.
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import Number, State
from highwater.model.language.state import Next, Nowhere

FIRST, SECOND = 0, 1
"""The partitions of the topic."""

OWN = ("partition", "complete", "diminished", "needless", "elr_entries", "requested")
"""What each partition has of its own: of the first in the state itself, of the second below ``second``."""


class Views:
    """The views of one step, of one partition or of ``both``.

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
            return Nowhere(getattr(after, name)._type)
        return getattr(after, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Write a field."""
        self.__getattr__(name)._write(value)
