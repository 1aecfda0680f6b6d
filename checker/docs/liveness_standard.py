"""The table of the standard scenarios: which liveness properties hold in them, and why the other ones do not."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.docs.liveness_needs import SCENARIOS, run_with
from highwater.checker.docs.side_by_side import in_order
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import violating_run
from highwater.model.language.liveness import TracedLiveness

PROTOCOLS = ("replication", "replication.controller")
"""The protocols of the table."""

_WHY = {
    "a": "Aggressive recovery elects the first replica that answers; what that one has lost, nobody gets any more. "
    "The scenario promises the same of its invariants.",
    "b": "966.15, first phase: the last known leader is elected although it lost its log; the others truncate to it.",
    "c": "Unclean recovery is left out of the scenario. Where the last member of the ISR has crashed, and nobody else "
    "is eligible, no leader is elected: nobody can fetch what was acknowledged. With `recovery` it holds, "
    "in `live-recovery` and `recovery-balanced`.",
    "d": "Balanced recovery waits until all of the last known ELR are unfenced (966.13): brokers that come and go in "
    "turn keep it waiting, see `controller/live-balanced`. In the replication protocol faults stop.",
    "e": "A broker that is fenced before the controller has heard of its shutdown is never granted it, and waits for "
    "ever. Kafka's stops by a time-out, which is not modelled.",
}
_WRITES = "acknowledged_writes_reach_all_replicas"
_VIOLATED = {
    ("replication/recovery-aggressive", _WRITES): "a",
    ("replication/recovery-first-phase", _WRITES): "b",
    ("replication/recovery-first-phase-loss", _WRITES): "b",
    ("replication/shutdown-replaced-disk", _WRITES): "c",
    ("replication/shutdown-unseen", _WRITES): "c",
    ("replication/standard-crashes", _WRITES): "c",
    ("replication/standard-late-proposals", _WRITES): "c",
    ("replication/standard-shutdown-requests", "writes_are_answered"): "e",
    ("replication/standard-shutdown-requests", "hwm_comes_to_cover_what_is_committed"): "e",
    ("replication/controller/unclean-recovery", "partitions_are_led"): "d",
}
"""Where a property is violated, and by which reason of ``_WHY``."""


_OTHER_VERSIONS = ("gap-", "gate-", "letter-", "mixed-", "upgrade-")
"""Scenarios of what no proposal asks for as it stands, or of the way to it: of their runs nothing is promised."""


def names(protocol: str) -> list[str]:
    """The standard scenarios of a protocol with all rules on, but for those of which the page tells more elsewhere."""
    standard = [s.name for s in scenarios.standard() if s.definition.name == protocol and not s.rules]
    ours = [name for name in standard if not name.rpartition("/")[2].startswith(_OTHER_VERSIONS)]
    return [name for name in ours if name not in SCENARIOS]


def section(protocol: str) -> Iterator[str]:
    """The table of a protocol, and its reasons."""
    rows = dict(zip(names(protocol), in_order(names(protocol), row), strict=True))
    (properties,) = {tuple(verdicts) for _, verdicts in rows.values()}
    yield f"### {protocol}"
    yield ""
    yield from (f"{number}. `{name}`" for number, name in enumerate(properties, 1))
    yield ""
    yield f"| scenario | steps |{''.join(f' {n} |' for n in range(1, len(properties) + 1))}"
    yield f"| --- | ---: |{' --- |' * len(properties)}"
    for name, (steps, verdicts) in rows.items():
        yield line(name, steps, verdicts)
    yield ""
    told = sorted({_VIOLATED[key] for key in _VIOLATED if key[0] in rows})
    for letter in told:
        yield f"* {letter}: {_WHY[letter]}"
    yield ""


def line(name: str, steps: int, verdicts: dict[str, str]) -> str:
    """A row of the table."""
    return f"| {name.rpartition('/')[2]} | {steps:,} |{''.join(f' {v} |' for v in verdicts.values())}"


def row(name: str) -> tuple[int, dict[str, str]]:
    """The steps of a scenario, and for each liveness property of its protocol what came of it."""
    scenario = scenarios.find(name)
    wanted = tuple(p.name for p in scenario.definition.liveness)
    model = Request.of(scenario, Overrides(properties=wanted)).model()
    explored = engines.explore("native")(model, SearchOptions(), None)
    if not explored.complete:
        raise ValueError(f"{name} was not searched to its end")

    def verdict(prop: TracedLiveness) -> str:
        found, why = violating_run(explored, prop), _VIOLATED.get((name, prop.name))
        if (found.violation is not None) != (why is not None):
            raise ValueError(f"{name}: {prop.name} is {'violated' if why is None else 'not violated'}")
        if why is None:
            return "holds" if found.premises else "–"
        run_with(model, explored, prop.liveness, prop.liveness.fair)  # the interpreter takes it again
        return f"**{why}**"

    return len(explored.targets), {prop.name: verdict(prop) for prop in model.liveness}


__all__ = ["PROTOCOLS", "line", "names", "row", "section"]
