"""A model as machine code: the layout of its states, its kernels, and functions that call the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from highwater.checker.engines import cache
from highwater.checker.engines.native.instructions import MOST_INSTANCES, ModelCode, translated
from highwater.checker.engines.native.ir import WideNumberError, is_wide
from highwater.checker.engines.native.kernels import (
    FINGERPRINT,
    PREDECESSOR,
    PREDECESSOR_BITS,
    WORDS,
    Kernels,
    canonical,
    refuse_asymmetry,
)
from highwater.checker.engines.native.machine import Beside, Effort, Machine, TextName, whole
from highwater.checker.engines.native.runtime import Runtime
from highwater.checker.engines.native.worker import Worker, sum_counters
from highwater.checker.engines.state_graph import Layout, Words
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import Model, graph
from highwater.model.language.graph import Node
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError
from highwater.model.language.model import Instance

_INSTRUCTION = 60
"""The bytes of LLVM text per instruction of the common kernel."""
_BEGIN, _CROWDED = 1.8e-6, 1.4e-5
"""A search compiles code of its own once it has taken this number of seconds for each byte of the code's LLVM text.

That is half of the time that compiling takes. The second number holds if other searches run at the same time, because
compilation slows them down.
"""


class CompiledModel:
    """Machine code of a model: the kernels and the loops around them.

    With ``common``, a search begins with the common kernel, because compiling often takes longer than the search.
    Code of the model's own is compiled in the background as the search grows (``improve``).

    With ``symmetry``, a random walk tests whether an uncached model is symmetric, unless ``ask`` is False. Raises
    EngineError if the test fails or the kernels do not support the model.
    """

    kernels: type[Kernels] = Kernels
    """The class that generates the kernels."""
    runtime: type[Runtime] = Runtime
    """The class that generates the loops."""

    def __init__(
        self,
        model: Model,
        symmetry: bool = False,
        *,
        ask: bool = True,
        effort: Effort = Effort.USUAL,
        common: bool = False,
    ) -> None:
        self.model, self._symmetry = model, symmetry
        self.layout, self.outline = Layout(model.leaves), model.outline
        self.instances = len(self.outline.instances)
        self._refuse_too_large()
        self._key = model.identity, self.kernels, self.runtime, symmetry
        self._name = cache.found(TextName, *self._key)
        if self._name is None and symmetry and ask:
            refuse_asymmetry(model)
        # Replaced code stays loaded: a thread may be in one of its functions.
        self._machines: list[Machine] = []
        self._beside: Beside | None = None
        self.effort: Effort | None = None
        self.code: ModelCode | None = None
        kept = self._name and Machine.kept(self._name, effort)
        if kept:
            self._take(kept, kept.effort)
        elif common and not symmetry and self.instances < MOST_INSTANCES:
            self._translate()
        else:
            self._take(Machine(self.text, effort), effort)
        self._improved = self.effort is Effort.FULL

    def _translate(self) -> None:
        """Use the common kernel."""
        self.code = cache.found(ModelCode, self.model.identity)
        if self.code is None:
            try:
                self.code = translated(self.model, self.layout)
            except WideNumberError:
                refuse_wide_numbers(self.model)
                raise
            cache.keep(self.code, self.model.identity)
        self._take(self.code.machine, None)

    def _refuse_too_large(self) -> None:
        if self.instances >= 1 << PREDECESSOR_BITS:
            raise EngineError(f"{self.instances} action instances are more than a search can number")
        if max(len(self.outline.properties), len(self.outline.step_properties)) > 64:
            raise EngineError("at most 64 properties can be checked in one run")

    @property
    def name(self) -> TextName:
        """The identity of the model's text in the cache."""
        if self._name is None:
            self._name = TextName.of(whole(self.text))
            cache.keep(self._name, *self._key)
        return self._name

    @cached_property
    def text(self) -> str:
        """The LLVM text of the model. It is generated only to be compiled."""
        try:
            text, fingerprint = self.kernels(self.model, self.layout).text(), "fingerprint"
        except WideNumberError:
            refuse_wide_numbers(self.model)
            raise
        if self._symmetry:
            text, fingerprint = text + canonical(self.model, self.layout), "canonical"
        of_steps = bool(self.outline.step_properties)
        return text + self.runtime(self.layout.words, fingerprint, of_steps=of_steps).text()

    @property
    def _size(self) -> int:
        """The bytes of the model's text, if it has been generated; else about as many."""
        if self.code is None or self._name is not None:
            return self.name.size
        return _INSTRUCTION * self.code.size

    def _take(self, machine: Machine, effort: Effort | None) -> None:
        self._machines.append(machine)
        self.effort = effort
        self.bind(machine)

    def bind(self, machine: Machine) -> None:
        """Use the functions of newly loaded machine code."""
        self.expand = machine.function("expand", 1)
        self.admit = machine.function("admit", 1)
        self.grow = machine.function("grow", 5, result=True)
        self._fingerprint_all = machine.function("fingerprint_all", 3)

    def fingerprints(self, states: Words) -> Words:
        """The fingerprints of packed states. With symmetry, the fingerprint of a state's least renaming."""
        states = np.ascontiguousarray(states)
        out: Words = np.empty(len(states), dtype=np.uint64)
        self._fingerprint_all(states.ctypes.data, len(states), out.ctypes.data)
        return out

    def improve(self, seconds: float, *, crowded: bool = False) -> None:
        """Start to compile code of the model's own in the background, if a search of this many seconds pays it off.

        The program uses this code once it is ready. Until then, and in threads that are inside a call, the former
        code runs: both use the same context. With ``crowded`` (other searches run at the same time), compilation
        starts later. 1 MB of text takes about 3 seconds.
        """
        if self._improved or seconds < (_CROWDED if crowded else _BEGIN) * self._size:
            return
        self._improved = True  # one attempt only, even if it fails
        better = Machine.kept(self.name, Effort.FULL)
        if better is not None:
            self._take(better, better.effort)
            return
        try:
            self._beside = Beside(self.text, Effort.FULL, lambda machine: self._take(machine, Effort.FULL))
        except OSError:  # no other process can be started
            self._take(Machine(self.text, Effort.FULL), Effort.FULL)

    def cancel_compilation(self) -> None:
        """Cancel the compilation. Without this call, the process waits at its end for the code and caches it."""
        if self._beside is not None:
            self._beside.give_up()

    def bound_error(self, code: int) -> BoundError:
        """The error for a step that left a type and that no bound prunes. ``code`` is the context's field ``error``."""
        instance = self.model.instances[(code - 1) >> 16]
        check = instance.checks[(code - 1) & 0xFFFF]
        return BoundError(f"{instance}: {check.message}", check.place)


class Program(CompiledModel):
    """Machine code of a model for searches and walks in one process."""

    def bind(self, machine: Machine) -> None:
        """Use the functions of newly loaded machine code."""
        super().bind(machine)
        self.sift = machine.function("sift", 1)
        self._successors = machine.function("successors", 5, result=True)
        self._judge_all = machine.function("judge_all", 5)
        if self.effort is not None:
            self.walk = machine.function("walk", 1)

    def steps(self, state: Scalars) -> list[tuple[int, Scalars]]:
        """The steps from one state, without pruned steps, as pairs: the instance's number and the next state.

        For tests and tools: a search expands many states in one call. Raises BoundError if a step leaves a type and no
        bound prunes the step.
        """
        return [(number, self.layout.unpack(row[WORDS:])) for number, row in self._rows(state)]

    def broken(self, state: Scalars) -> list[tuple[int, list[str]]]:
        """For each step from one state: the instance's number, and the names of the violated step properties."""
        names = [p.name for p in self.model.step_properties]
        found = [(number, int(row[FINGERPRINT]) if names else 0) for number, row in self._rows(state)]
        return [(number, [n for i, n in enumerate(names) if bits >> i & 1]) for number, bits in found]

    def _rows(self, state: Scalars) -> Iterator[tuple[int, Words]]:
        worker, words = self.worker(), self.layout.pack(state)
        width = WORDS + self.layout.words
        out = np.zeros((self.instances + 1, width), dtype=np.uint64)
        end = self._successors(worker.address, words.ctypes.data, 0, 1, out.ctypes.data)
        self.check_error(worker)
        for row in out[: (end - out.ctypes.data) // (8 * width)]:
            yield int(row[PREDECESSOR]) & ((1 << PREDECESSOR_BITS) - 1), row

    def violated(self, state: Scalars) -> list[str]:
        """The names of the invariants that one state violates."""
        worker, words = self.worker(), self.layout.pack(state)
        self._judge_all(worker.address, words.ctypes.data, self.layout.words, 0, 1)
        bits = sum(int(found) for _, found in worker.violations[: worker["violation_count"]])
        return [p.name for i, p in enumerate(self.model.properties) if bits >> i & 1]

    def check_error(self, worker: Worker) -> None:
        """Raises BoundError if, in the worker's last call, a step left a type and no bound pruned the step."""
        code = worker["error"]
        if code:
            worker["error"] = 0
            raise self.bound_error(code)

    def totals(self, workers: Sequence[Worker]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The counters of all workers added up: steps by action, pruned steps by bound, true premises by property."""
        outline = self.outline
        sums = sum_counters(workers)
        actions = dict.fromkeys((a.name for a in self.model.actions), 0)
        for name, taken in zip(outline.instances, sums["counts"], strict=False):
            actions[name] += taken
        cut = dict(zip(outline.bounds, sums["cuts"], strict=False))
        return actions, cut, dict(zip(outline.safety, sums["premises"], strict=False))

    def worker(self, want_deadlock: bool = False) -> Worker:
        """Create the buffers for one thread."""
        return Worker(self.model, self.layout.words, self.code, want_deadlock=want_deadlock)


def refuse_wide_numbers(model: Model) -> None:
    """Raises WideNumberError if a number may need more than 62 bits. The error names the instance or the property."""
    steps = model.step_properties
    judged = [(steps[j.number].name, j) for own in model.judged_in_place for j in own]
    roots = [(str(i), roots_of(i)) for i in model.instances]
    roots += [(f"property {p.name}", [p.node, p.premise]) for p in model.properties]
    roots += [(f"property {name}", [j.node, j.premise]) for name, j in judged]
    roots += [(f"property {p.name}", [p.node, p.premise]) for p in steps if p.is_large]
    for what, nodes in roots:
        if any(map(is_wide, graph.reachable(nodes))):
            raise WideNumberError(f"{what} computes with numbers or sets that may need more than 62 bits")


def roots_of(instance: Instance) -> list[Node]:
    """The expressions of an instance: its guards, written values and checks."""
    nodes = [g.node for g in instance.guards] + [w.node for w in instance.writes.values()]
    return nodes + [c.node for c in instance.checks]
