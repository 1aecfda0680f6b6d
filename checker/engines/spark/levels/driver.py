"""Small levels: expanded by the driver, in the order of the native search with one worker.

What they leave behind has the form that the cluster's levels have, so a level may be either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.program import RowBuffers, RowProgram

_NOT_YET = -1
Known = tuple[int, int]
"""A bit for each property whose violation was found: of the invariants, and of the properties of steps."""


@dataclass
class NextLevel:
    """What expanding a level gave: the next one's files, and what was counted on the way.

    ``places`` is the index of the first violating state by property, in the new level; ``broken``, by property of
    steps, that of a state in the level expanded with the instance of a violating step from there; ``stuck`` the index
    of the first state without a step in the level expanded, or None.
    """

    parts: tuple[LevelFile, ...] = ()
    generated: int = 0
    actions: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    premises: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    broken: dict[str, tuple[int, int]] = field(default_factory=dict)
    stuck: int | None = None


class Driver:
    """The driver's own table of all fingerprints, for as long as there are few."""

    def __init__(
        self, program: RowProgram, checkpoint: SparkCheckpoint, run: SearchIdentity, memory: int
    ) -> None:
        self._program, self._checkpoint, self._run = program, checkpoint, run
        self._table = program.table(memory)
        self._upto = _NOT_YET

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return self._table.bytes

    def close(self) -> None:
        """Free the table."""
        self._table.close()

    def first(self, initial: Words) -> NextLevel:
        """The level of the initial states."""
        buffers = RowBuffers(self._program)
        found = self._keep(buffers, buffers.admit(self._table, initial), 0, lambda: False)
        assert found is not None
        found.generated = len(initial)
        return found

    def expand(
        self, level: CommittedLevel, known: Known, deadlock: bool, stopped: Callable[[], bool]
    ) -> NextLevel | None:
        """The level after one; None where the search was stopped meanwhile. Raises BoundError."""
        for number in range(self._upto + 1, level.number + 1):
            missing = self._checkpoint.level(number)
            assert missing is not None
            for part in missing.parts:
                fingerprints = self._checkpoint.fingerprints(number, part)
                RowBuffers(self._program).remember(self._table, fingerprints, 0)
        self._upto = level.number
        buffers = RowBuffers(self._program, deadlock=deadlock)
        buffers["known"], buffers["known_steps"] = known

        def successors() -> Iterator[Words]:
            for part in level.parts:
                base = part.base
                for group in self._checkpoint.states(level.number, part, self._program.fingerprints):
                    yield from buffers.expand(self._table, group, base)
                    base += len(group)

        return self._keep(buffers, successors(), level.number + 1, stopped)

    def _keep(
        self, buffers: RowBuffers, kept: Iterator[Words], number: int, stopped: Callable[[], bool]
    ) -> NextLevel | None:
        writer = self._checkpoint.writer(number, None, self._run.words)
        places: dict[str, int] = {}
        for rows in kept:
            for name, index in buffers.violated():
                places.setdefault(name, writer.count + index)
            writer.add(rows)
            if stopped():
                break
        writer.close()
        if stopped():
            return None
        self._upto = number
        stuck = buffers["deadlock"]
        return NextLevel(
            (writer.part(),) if writer.count else (),
            int(buffers.counts.sum()),
            self._program.actions_taken(buffers.counts),
            [int(n) for n in buffers.cuts],
            [int(n) for n in buffers.premises],
            places,
            buffers.violated_by_steps(),
            stuck if stuck >= 0 else None,
        )


def packed(program: RowProgram) -> Words:
    """The model's initial states, packed."""
    return initial_words(program.model, program.layout)
