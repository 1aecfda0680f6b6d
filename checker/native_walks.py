"""The native engine's random walks, asked and answered as checker.simulation says."""

from __future__ import annotations

from checker import native
from checker.search import Progress, ProgressCallback
from checker.simulation import SimulationOptions, SimulationResult
from model.language.model import Model


def simulate(
    model: Model, options: SimulationOptions, progress: ProgressCallback | None = None
) -> SimulationResult:
    """Walk at random with compiled kernels. Rounds of walks are finished, so a violation may not be the only one."""

    def tell(found: native.SimulationResult) -> None:
        if progress:
            states = found.steps + found.walks
            left = options.walks - found.walks
            progress(Progress(found.longest + 1, states, states, left, 0, 0, found.seconds))

    asked = native.SimulationOptions(
        walks=options.walks,
        depth=options.depth - 1,
        seed=options.seed,
        workers=options.workers,
        limit_seconds=options.limit_seconds,
        deadlock=options.deadlock,
    )
    found = native.simulate(model, asked, tell)
    return SimulationResult(
        generated_states=found.steps + found.walks,
        depth=found.longest + 1,
        stopped_by=found.stopped_by,
        cut=found.cut,
        actions=found.actions,
        premises=found.premises,
        violations=found.violations,
        seconds=found.seconds,
        preparation_seconds=found.preparation_seconds,
        walks=found.walks,
        seed=options.seed,
    )
