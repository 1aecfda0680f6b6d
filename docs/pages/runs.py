"""A run as a table, for the pages that tell several."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.blocks import code, table
from highwater.checker.telling.charts.lanes import SequenceChart
from highwater.checker.telling.counterexample import Counterexample


def run_table(chart: SequenceChart, example: Counterexample) -> Iterator[str]:
    """A run, a line a step, with what the protocol wants told of the changes."""
    steps = enumerate(example.steps[1:], 2)
    rows = ((number, step.sentence, code(chart.told(step, None))) for number, step in steps)
    return table(("step:", "what happens", "what changes"), rows)
