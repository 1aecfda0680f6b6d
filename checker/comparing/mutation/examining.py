"""All mutants of one scenario: which change a step of it, and of these which are noticed by a property.

A mutant is *equal* in a scenario where it takes the same steps in every reachable state: then nothing is searched.
Else what it reaches beyond the protocol's states is searched first. Where that violates nothing, no search from the
initial states does. Only what is violated there, or is too much, is asked of such a search, which tells a shortest
depth, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Annotated

from msgspec import Meta, Struct, structs

from highwater.checker.asking.request import Request
from highwater.checker.asking.search import DEADLOCK, EngineError, SearchOptions
from highwater.checker.comparing.models.fingerprints import Fingerprints
from highwater.checker.comparing.mutation.kernels import MutantKernels
from highwater.checker.comparing.mutation.searches import (
    BeyondRun,
    MutantProgram,
    MutantRun,
    differing,
    explore,
    graph,
)
from highwater.checker.engines.layout import Layout
from highwater.model.language.interpreter import BoundError
from highwater.model.language.mutated import MutatedModel
from highwater.model.language.mutation import Mutant

EQUAL, KILLED, SURVIVED, UNFINISHED = "equal", "killed", "survived", "unfinished"
VIOLATED, HOLDS, LEAVES, NEVER = "violated", "holds", "leaves its type", "never taken"
ELSEWHERE = "by other steps"
"""How a mutant survives where other steps lead wherever those lead that it has not."""
NEARBY = "nothing nearby"
"""How a mutant is unfinished in a scenario of which only the nearest states were asked."""

FIRST, AGAIN = (0.25, 20_000), (2.0, 200_000)
"""How much larger than the protocol a mutant may be before a search of it is given up: so many times its states, and so
many more. Most are killed nearby, in one scenario or another; those that are not are asked again, with more room."""
Room = tuple[float, int]


Count = Annotated[int, Meta(ge=0)]
Kind = Annotated[str, Meta(pattern=f"^({'|'.join((EQUAL, KILLED, SURVIVED, UNFINISHED))})\\Z")]
How = Annotated[str, Meta(pattern=f"^({'|'.join((VIOLATED, HOLDS, LEAVES, NEVER, ELSEWHERE, NEARBY))})\\Z")]


class MutantResult(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one scenario says of a mutant.

    ``how`` it was killed: a property is violated, one that is promised to be violated holds, an action leaves its
    type, or one (``property``) is never taken. ``depth`` is where; ``differs`` the depth of the first state with
    another step. ``new``: how many states that the protocol does not reach it reaches from any of the protocol's
    states, so from the start no more than these; ``lost`` how many of the protocol's it does not reach.
    """

    kind: Kind
    how: How | None = None
    property: str | None = None
    depth: Count | None = None
    differs: Count | None = None
    new: Count | None = None
    lost: Count | None = None


Say = Callable[[int, MutantResult], None]


def _most(states: int, room: Room) -> int:
    """How many states a mutant may have of a protocol with so many."""
    times, more = room
    return int(states * (1 + times)) + more


class Examination:
    """One scenario with all its mutants. InputError or LanguageError where it cannot be traced."""

    def __init__(self, request: Request, memory_bytes: int | None = None, states: int | None = None) -> None:
        self.request, self.states = request, states
        self.model: MutatedModel = request.model(MutatedModel)  # type: ignore[assignment]
        self.promised = request.expected
        self.options = SearchOptions(
            workers=1, memory_bytes=memory_bytes, deadlock=request.deadlock, on_disk=False
        )

    @cached_property
    def digest(self) -> str:
        """What a result depends on: the kernels with all mutants, the properties, and what is promised of them."""
        text = self.text
        prints = Fingerprints()
        live = [prints.liveness(self.model, p) for p in self.model.liveness]
        asked = (self.request.properties, sorted(self.promised), live)
        return hashlib.sha256(f"{text}{asked}".encode()).hexdigest()

    @property
    def text(self) -> str:
        """The text of the kernels with all mutants."""
        return MutantKernels(self.model, Layout(self.model.leaves)).text()

    @property
    def mutants(self) -> dict[int, Mutant]:
        """The mutants by their numbers."""
        return self.model.mutants

    def invariants(
        self,
        numbers: Collection[int],
        say: Say,
        limit_states: int | None,
        room: Room = FIRST,
        of_all: bool = False,
    ) -> str | None:
        """Ask mutants of the invariants; what stands in the way, if anything does: then nothing is said.

        Where the search ends with what is promised to be violated, a mutant that does not violate it goes on: with
        ``of_all`` it has room for all states that the protocol has.
        """

        def ask(program: MutantProgram, base: MutantRun) -> None:
            states = max(base.distinct, self.states or 0) if of_all else base.distinct
            options = replace(self.options, limit_states=_most(states, room))
            for number, depth in self._differing(program, base, numbers, say):
                say(number, structs.replace(self._searched(program, base, number, options), differs=depth))

        return self._beside_the_protocol(ask, limit_states, len(numbers))

    def liveness(
        self, numbers: Collection[int], say: Say, limit_states: int | None, room: Room = FIRST
    ) -> str | None:
        """Ask mutants of the liveness properties, one after the other: each has a graph of its own."""

        def ask(program: MutantProgram, base: MutantRun) -> None:
            options = replace(self.options, limit_states=_most(base.distinct, room))
            for number, depth in self._differing(program, base, numbers, say):
                say(number, structs.replace(self._lived(program, number, options), differs=depth))

        # A run that violates a liveness property can go on where all promised violations are found.
        return self._beside_the_protocol(ask, limit_states, len(numbers), all_states=True)

    def lesser(self, numbers: Collection[int], say: Say, limit_states: int | None) -> str | None:
        """Ask mutants that reach no other state what they leave out, each by its graph and the protocol's."""
        from highwater.checker.comparing.mutation.lesser import GraphComparison

        def ask(program: MutantProgram, base: MutantRun) -> None:
            options = replace(self.options, limit_states=_most(base.distinct, FIRST))
            comparison = GraphComparison(self.request, graph(program, 0, options))
            for number, depth in self._differing(program, base, numbers, say):
                result = MutantResult(SURVIVED, new=0, differs=depth)
                explored = graph(program, number, options)
                assert explored.complete, "it reaches no more states than the protocol"
                found = comparison.of(explored)
                if found.never is not None:
                    result = structs.replace(result, kind=KILLED, how=NEVER, property=found.never)
                how = ELSEWHERE if found.redundant else result.how
                say(number, structs.replace(result, how=how, lost=found.lost))

        return self._beside_the_protocol(ask, limit_states, len(numbers))

    def nearest(self, numbers: Collection[int], say: Say, most: int) -> None:
        """Ask mutants of the invariants in a scenario that is too large: in so many states, the nearest ones."""
        program = MutantProgram(self.model, MutantProgram.effort_for(most * len(numbers), self.text))
        program.choose(0)
        options = replace(self.options, limit_states=most)
        base = MutantRun(program, options, self.promised, keep=True)
        try:
            base.explore()
            differs = differing(program, base.all_states, sorted(numbers))
            for number in sorted(numbers):
                found = MutantResult(UNFINISHED, NEARBY)
                if number in differs:
                    searched = self._from_the_start(program, number, options)
                    found = searched if searched.kind == KILLED and searched.how != HOLDS else found
                    found = structs.replace(found, differs=base.depth_of(differs[number]))
                say(number, found)
        finally:
            base.close()
            program.finish()

    def _beside_the_protocol(
        self,
        ask: Callable[[MutantProgram, MutantRun], None],
        limit_states: int | None,
        asked: int = 1,
        *,
        all_states: bool = False,
    ) -> str | None:
        """Explore the protocol as it is, and then ask so many mutants; what is wrong with it, if anything is.

        It is explored until all that is promised to be violated was found; with ``all_states`` to its end.
        """
        effort = MutantProgram.effort_for((self.states or 0) * asked, self.text)
        program = MutantProgram(self.model, effort)
        base = None
        try:
            program.choose(0)
            options = replace(self.options, limit_states=limit_states, all_states=all_states)
            base = MutantRun(program, options, self.promised, keep=True)
            result = base.explore()
            if result.stopped_by not in (None, "violation"):
                return f"not all of its states were seen ({result.stopped_by})"
            named = set(self.model.safety) | ({DEADLOCK} if self.request.deadlock else set())
            if {v.property for v in result.violations} != self.promised & named:
                return "it does not keep its own promise"
            ask(program, base)
            return None
        finally:
            if base is not None:
                base.close()
            program.finish()

    def _differing(
        self, program: MutantProgram, base: MutantRun, numbers: Collection[int], say: Say
    ) -> Iterator[tuple[int, int]]:
        """The mutants that change a step, and the depth of the first state where one does; of the others it is said."""
        program.prepare(base.distinct * len(numbers))
        differs = differing(program, base.all_states, sorted(numbers))
        for number in sorted(set(numbers) - differs.keys()):
            say(number, MutantResult(EQUAL))
        for number, state in sorted(differs.items()):
            yield number, base.depth_of(state)

    def _searched(
        self, program: MutantProgram, base: MutantRun, number: int, options: SearchOptions
    ) -> MutantResult:
        new = None
        if base.stop is None and not options.deadlock:
            run = BeyondRun(program, number, options, base)
            try:
                bad, new = run.beyond()
            finally:
                run.close()
            if not (bad or run.stop or self.promised):
                return MutantResult(SURVIVED, new=new)
        return structs.replace(self._from_the_start(program, number, options), new=new)

    def _from_the_start(self, program: MutantProgram, number: int, options: SearchOptions) -> MutantResult:
        found = explore(program, number, options, self.promised)
        if found.error is not None:
            return MutantResult(KILLED, LEAVES, found.error, found.depth)
        if found.violated:
            name, depth = min(found.violated.items(), key=lambda x: (x[1], x[0]))
            return MutantResult(KILLED, VIOLATED, name, depth)
        if found.stopped_by not in (None, "violation"):
            return MutantResult(UNFINISHED)
        missed = sorted((self.promised & set(self.model.safety)) - found.kept)
        if missed:
            return MutantResult(KILLED, HOLDS, ", ".join(missed), found.depth)
        return MutantResult(SURVIVED)

    def _lived(self, program: MutantProgram, number: int, options: SearchOptions) -> MutantResult:
        from highwater.checker.engines.liveness import violating_run

        try:
            explored = graph(program, number, options)
            if not explored.complete:
                return MutantResult(UNFINISHED)
            runs = [violating_run(explored, prop).violation for prop in explored.model.liveness]
        except BoundError as wrong:
            return MutantResult(KILLED, LEAVES, str(wrong))
        except EngineError:
            return MutantResult(UNFINISHED)
        depths = {v.property: v.depth for v in runs if v is not None}
        if new := [(depth, name) for name, depth in depths.items() if name not in self.promised]:
            depth, name = min(new)
            return MutantResult(KILLED, VIOLATED, name, depth)
        if missed := sorted(self.promised & {p.name for p in self.model.liveness} - depths.keys()):
            return MutantResult(KILLED, HOLDS, ", ".join(missed))
        return MutantResult(SURVIVED)
