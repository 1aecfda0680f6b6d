"""docs/promise.md: what clients are promised, what keeps it, and what breaks it with a rule off."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import click

from highwater.checker.comparing.gate import baseline
from highwater.checker.docs import defects
from highwater.checker.telling.counterexample import Counterexample, abstract_step, no_abstract_step

HERE = Path(__file__).resolve().parent
MARK = "<!-- standard -->"
PROPERTY = "keeps_the_promise"


def promise_page() -> str:
    """The page: its words, the standard scenarios as the gate's baseline has them, and the runs of the broken ones."""
    head = (HERE / "promise-head.md").read_text(encoding="utf-8")
    told = tomllib.loads((HERE / "promise.toml").read_text(encoding="utf-8"))["broken"]
    sections = ["\n".join(_section(entry["scenario"], entry["says"].strip())) for entry in told]
    return head.replace(MARK, "\n".join(_standard())).rstrip() + "\n\n" + "\n\n".join(sections) + "\n"


def _standard() -> Iterator[str]:
    """The table of the scenarios in which the promise is kept, by the committed baseline."""
    kept = baseline.read(HERE.parents[1] / baseline.DEFAULT).facts
    yield "| scenario | states | depth | steps that clients see |"
    yield "| --- | ---: | ---: | ---: |"
    for (_, name), facts in kept.items():
        steps = facts.get("premises", {}).get(PROPERTY)
        if steps is not None or facts.get("properties", {}).get(PROPERTY) == "holds":
            seen = "" if steps is None else f"{steps:,}"
            yield f"| `{name}` | {facts['distinct_states']:,} | {facts['depth']} | {seen} |"


def _section(name: str, says: str) -> Iterator[str]:
    place, _, own = name.rpartition("/")
    found = defects.find(own, f"{place}/")
    (example,) = found.examples
    yield f"### {', '.join(f'`{rule}`' for rule in found.off)}"
    yield ""
    yield says
    yield ""
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


__all__ = ["promise_page"]
