"""Which rules were in force: one set of rules has to explain all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from highwater.traces.rules.profiles import RuleSet


class Narrowed(NamedTuple):
    """From an offset on, only some sets of rules explain a partition ("" for a broker's registration alone).

    ``version`` counts how often other sets came into question before; ``tags`` are numbers of sets.
    """

    version: int
    offset: int
    partition: str
    tags: frozenset[int]
    time: int


class Disagreement(NamedTuple):
    """Where no set of rules is left: the profiles that explained all others, and those that explain this one."""

    at: Narrowed
    others: list[str]
    this: list[str]


class Agreement:
    """The sets of rules that come into question, likelier ones first, and those of them that are left.

    ``versions`` are all that came into question one after the other.
    """

    def __init__(self, sets: tuple[RuleSet, ...]) -> None:
        self.versions = [sets]
        self._narrowed: list[Narrowed] = []
        self._version = 0
        self._left: Set[int] = frozenset(range(len(sets)))

    @property
    def sets(self) -> tuple[RuleSet, ...]:
        """Those that come into question now."""
        return self.versions[-1]

    def renew(self, sets: tuple[RuleSet, ...]) -> None:
        """Other sets come into question, from now on."""
        self.versions.append(sets)

    def narrow(self, offset: int, partition: str, tags: frozenset[int], time: int) -> None:
        """A partition is explained by these sets only."""
        self._narrowed.append(Narrowed(len(self.versions) - 1, offset, partition, tags, time))

    def drain(self) -> list[Narrowed]:
        """What was said since the last time, in the order in which it counts."""
        found, self._narrowed = self._narrowed, []
        found.sort(key=lambda n: n[:3])
        return found

    def settle(self, narrowed: Iterable[Narrowed]) -> Iterable[Disagreement]:
        """See what is left after these, in their order; where nothing is, what explains the last one counts."""
        for said in narrowed:
            self._reach(said.version)
            left = self._left & said.tags
            if not left:
                sets = self.versions[said.version]
                yield Disagreement(said, _profiles(sets, self._left), _profiles(sets, said.tags))
            self._left = left or said.tags

    def chosen(self) -> RuleSet:
        """The likeliest that is left, after all was settled."""
        self._reach(len(self.versions) - 1)
        return self.sets[min(self._left)]

    def _reach(self, version: int) -> None:
        if version != self._version:
            self._version, self._left = version, frozenset(range(len(self.versions[version])))


def _profiles(sets: tuple[RuleSet, ...], tags: Set[int]) -> list[str]:
    return [sets[tag].profile for tag in sorted(tags)]
