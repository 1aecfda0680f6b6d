"""Where liveness properties hold, and what each assumption is there for: the blocks of docs/liveness.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs.analyses.livelocks import LIVELOCKS
from docs.analyses.liveness_needs import SCENARIOS, Needed, needed
from docs.analyses.liveness_standard import verdicts
from docs.analyses.side_by_side import in_order
from docs.pages.blocks import Block, table
from highwater.checker.asking import scenarios


def _livelock(property: str) -> Iterator[str]:
    """The run of a livelock, as its sentences."""
    run = LIVELOCKS[property].run()
    assert run.loop is not None
    yield "```text"
    for number, step in enumerate(run.steps, 1):
        if number == run.loop.start + 2:
            yield "    and then for ever:"
        yield f"{number:3} {step.sentence}"
    yield f"    and so on from state {run.loop.start + 1}"
    yield "```"


def _standard(protocol: str) -> Iterator[str]:
    """The standard scenarios of a protocol against its properties."""
    rows = verdicts(protocol)
    (properties,) = {tuple(told) for _, told in rows.values()}
    yield from (f"{number}. `{name}`" for number, name in enumerate(properties, 1))
    yield ""
    columns = ("scenario", "steps:", *map(str, range(1, len(properties) + 1)))
    yield from table(columns, (standard_row(name, *row) for name, row in rows.items()))


def standard_row(name: str, steps: int, told: dict[str, str]) -> tuple[str, ...]:
    """The cells of a scenario."""
    return (name.rpartition("/")[2], f"{steps:,}", *told.values())


def _needs() -> Iterator[str]:
    """Each scenario that is there for liveness, and the properties in it with one assumption less."""
    for lines in in_order(SCENARIOS, lambda name: list(needs_section(name))):
        yield from lines


def needs_section(name: str) -> Iterator[str]:
    """What is said of one scenario."""
    found = needed(name)
    title = scenarios.find(name).title
    yield from (f"### {name.partition('/')[2]}", "")
    yield from (f"{title}. {found.states:,} states, {found.steps:,} steps.", "")
    yield from table(("property", "without", "violated after:", "by a loop of:"), _rows(found))
    yield ""


def _rows(found: Needed) -> Iterator[tuple[str, str, str, str]]:
    for name, fairness, example in found.rows:
        lengths = ("holds", "")
        if example is not None and example.loop is not None:
            lengths = str(example.loop.start), str(example.depth - 1 - example.loop.start)
        yield (f"`{name}`", "nothing" if fairness is None else str(fairness), *lengths)


BLOCKS: dict[str, Block] = {"livelock": _livelock, "standard": _standard, "needs": _needs}
