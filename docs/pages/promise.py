"""The blocks of docs/promise.md: what clients are promised, what keeps it, and what breaks it with a rule off."""

from __future__ import annotations

from collections.abc import Iterator

import click

from docs.analyses import defects
from docs.pages.blocks import Block, row, table
from docs.pages.place import DOCS
from highwater.checker.comparing.gate import baseline
from highwater.checker.telling.counterexample import Counterexample, abstract_step, no_abstract_step

PROPERTY = "keeps_the_promise"


def _standard() -> Iterator[str]:
    """The table of the scenarios in which the promise is kept, by the committed baseline."""
    kept = baseline.read(DOCS.parent / baseline.DEFAULT).facts
    yield from table(("scenario", "states:", "depth:", "steps that clients see:"), [])
    for (_, name), facts in kept.items():
        steps = facts.get("premises", {}).get(PROPERTY)
        if steps is not None or facts.get("properties", {}).get(PROPERTY) == "holds":
            seen = "" if steps is None else f"{steps:,}"
            yield row((f"`{name}`", f"{facts['distinct_states']:,}", facts["depth"], seen))


def _broken(name: str) -> Iterator[str]:
    """A scenario with a rule off, and the run that breaks the promise."""
    place, _, own = name.rpartition("/")
    found = defects.find(own, f"{place}/")
    (example,) = found.examples
    yield f"`highwater check {name}`: {found.result.distinct_states:,} states until it is found."
    yield ""
    yield "```"
    yield from map(click.unstyle, _run(example))
    yield "```"


def _run(example: Counterexample) -> Iterator[str]:
    """The steps as sentences, what they are to the abstract protocol, and the step that is none of its own."""
    run = example.abstract
    assert run is not None
    for number, step in enumerate(example.steps, 1):
        yield f"{number:4}  {step.sentence}"
        if number > 1:
            yield from abstract_step(run, number - 2, None)
    yield ""
    yield from list(no_abstract_step(run, None))[:-1]


BLOCKS: dict[str, Block] = {"standard": _standard, "broken": _broken}
