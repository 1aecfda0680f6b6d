"""Buffers for the steps of a range of states, as ``@link`` writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.native.code.program import CompiledModel
from highwater.checker.engines.native.text.linking import FIELDS, cut_words
from highwater.checker.engines.native.worker import Buffers
from highwater.model.language.model import Model

_STATES, _STEPS = 4096, 1 << 20
"""The most states of one call, and the most steps that they may have."""


def states_at_once(instances: int) -> int:
    """How many states one call may link in a model with so many instances."""
    return max(64, min(_STATES, _STEPS // max(1, instances)))


@dataclass
class LinkedSteps:
    """The steps of some states: where to and by which instance; how many of each state; and those that are cut."""

    targets: NDArray[np.int64]
    instances: NDArray[np.int64]
    counts: NDArray[np.int64]
    cuts: NDArray[np.int64]
    cut_counts: NDArray[np.int64]


class Linker(Buffers):
    """Buffers for one thread that links up to so many states at a time."""

    def __init__(self, program: CompiledModel, states: int, exact: bool) -> None:
        super().__init__(program.model, program.layout.words, FIELDS, want_deadlock=False, judging=False)
        make_room_for_cuts(self, program.model)
        most = max(1, states * program.instances)
        self.steps = LinkedSteps(
            *(np.empty(size, dtype=np.int64) for size in (most, most, states, most, states))
        )
        for name, array in (
            ("out_targets", self.steps.targets),
            ("out_instances", self.steps.instances),
            ("out_step_counts", self.steps.counts),
            ("out_cuts", self.steps.cuts),
            ("out_cut_counts", self.steps.cut_counts),
        ):
            self[name] = array.ctypes.data
        self["exact"] = int(exact)


def make_room_for_cuts(buffers: Buffers, model: Model) -> None:
    """Room for the bits of the instances that are cut, before the counters."""
    before = cut_words(len(model.instances))
    buffers.cuts = np.zeros(before + max(1, len(model.bounds)), dtype=np.int64)[before:]
    buffers["cuts"] = buffers.cuts.ctypes.data
