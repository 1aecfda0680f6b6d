"""The runs that a gate has to show: to violations that were not there, to states that only one revision reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from highwater.checker.comparing.gate.gating import Gate
from highwater.checker.telling import counterexample
from highwater.checker.telling.page.shown import ShownRun, of_example
from highwater.model.language.interpreter import Interpreter


def runs(gate: Gate) -> Iterator[ShownRun]:
    """Each as a run to step through, with the name of its scenario."""
    for verdict in gate.verdicts:
        new = [d.name for d in verdict.differences if d.table == "violated" and d.before is None]
        found = [verdict.ran.violations[name] for name in new if name in verdict.ran.violations]
        model = verdict.entry.request().model() if found else None
        for violation in found:
            assert model is not None
            example = counterexample.follow(model, Interpreter(model), violation)
            run = of_example(model, violation, example)
            yield replace(run, title=f"{verdict.entry.name}: {run.title}")
    for comparison in gate.explained:
        for told in (comparison.to_new, comparison.to_lost):
            if told is not None and told.shown is not None:
                yield replace(told.shown, title=f"{comparison.scenario}: {told.shown.title}")
