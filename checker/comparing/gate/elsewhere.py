"""Whether another scenario reaches a state in which an action differs that does the same wherever one scenario goes.

Other scenarios of the protocol are searched, those with larger bounds first, and the same scenario with one bound a
step larger: within limits, so that no state was found says little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice, zip_longest

import numpy as np

from highwater.checker.asking import catalogue, scenarios
from highwater.checker.asking.model_key import KEPT, by_action
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.asking.search import EngineError, SearchOptions
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate.baseline import Baseline
from highwater.checker.comparing.gate.entries import SCENARIO, GateEntry
from highwater.checker.comparing.models.compared import restored
from highwater.checker.comparing.models.differences import ActionChange, Comparison, instances_of_both
from highwater.checker.comparing.models.revisions import Image, RestoredModel, Revision, UnknownImageError
from highwater.checker.comparing.models.states import answers, described, example
from highwater.checker.engines.native.state_graph import explore
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model

SECONDS = 30.0
"""So long is searched for all scenarios that are explained."""
EACH_SECONDS = 8.0
LIMIT_STATES = 200_000
TOGETHER = 8
"""So many others are traced by the other revision at a time."""


def seek(
    explained: Sequence[Comparison], entries: Sequence[GateEntry], baseline: Baseline, old: Revision
) -> None:
    """Add, to each action that does the same wherever its scenario goes, a state of another in which it does not."""
    deadline = time.monotonic() + SECONDS
    for found in explained:
        open_ = [change for change in found.actions if change.same_so_far]
        entry = next((e for e in entries if e.kind == SCENARIO and e.name == found.scenario), None)
        if not open_ or entry is None or time.monotonic() > deadline:
            continue
        others = _others(entry, entries, baseline)
        while open_ and time.monotonic() < deadline and (some := list(islice(others, TOGETHER))):
            for other, before in zip(some, old.images([o.asked() for o in some]), strict=True):
                seconds = min(EACH_SECONDS, deadline - time.monotonic())
                if open_ and seconds > 0 and "error" not in before:
                    _search(other, before, open_, seconds)
                open_ = [change for change in open_ if not change.reached_by]


def _search(other: GateEntry, image: Image, changes: Sequence[ActionChange], seconds: float) -> None:
    """Look for the shallowest state of a scenario in which one of the actions differs."""
    with suppress(InputError, LanguageError, EngineError, UnknownImageError):
        new = other.request().model()
        old, order = restored(image, new)
        if order is not None:
            _compare(other, old, new, changes, seconds)


def _compare(
    other: GateEntry, old: RestoredModel, new: Model, changes: Sequence[ActionChange], seconds: float
) -> None:
    before, now = by_action(old), by_action(new)
    both = [c for c in changes if c.before in before and c.action in now]
    both = [c for c in both if KEPT.action(before[c.before]) != KEPT.action(now[c.action])]
    if not both:
        return
    options = SearchOptions(workers=1, limit_states=LIMIT_STATES, limit_seconds=seconds)
    explored = explore(new, options)
    for change in both:
        pairs = instances_of_both(before[change.before], now[change.action])
        found = [(int(np.argmax(c)), w, a, b) for w, c, a, b in answers(explored, new, pairs) if c.any()]
        if found:
            index, word, a, b = min(found, key=lambda one: one[0])
            state = explored.scalars(index)
            change.reached_by, change.unreached = _called(other), described(new, state)
            change.examples = [example((old, new), word, state, a, b)]


def _called(entry: GateEntry) -> str:
    over = ", ".join(f"{name}={value}" for name, value in entry.parameters.items())
    return f"{entry.name} with {over}" if over else entry.name


def _others(entry: GateEntry, entries: Sequence[GateEntry], baseline: Baseline) -> Iterator[GateEntry]:
    """Other scenarios of the same protocol, and the same with one bound larger, by turns."""
    scenario = entry.found()
    known, values = scenario.protocol.parameters, scenario.parameter_values({})
    more, first = (
        [
            replace(entry, parameters={name: value + 1})
            for name, value in values.items()
            if value < known[name].high and bool(value) == granted
        ]
        for granted in (True, False)
    )
    run_here = {e.name for e in entries}
    near = sorted(
        (o for o in _of_protocol(scenario, baseline) if o.name != entry.name),
        key=lambda o: (o.name in run_here, *_far(scenario, o.found())),
    )
    yield from (one for one in chain(*zip_longest(near, more, first)) if one is not None)


def _of_protocol(scenario: Scenario, baseline: Baseline) -> Iterator[GateEntry]:
    """The scenarios of the same protocol: those that come with it, of one's own those beside its file."""
    definition, root = scenario.definition, baseline.root.resolve()
    files, protocol = catalogue.scenario_files(), definition.name
    if definition.file is not None:
        beside = definition.file.resolve().parent.glob("*.toml")
        files = {p.relative_to(root).as_posix(): p for p in sorted(beside) if p.is_relative_to(root)}
        protocol = definition.file.name
    for name, path in files.items():
        with suppress(InputError):
            if scenarios.outline(path).get("protocol") == protocol:
                yield GateEntry.of_scenario(name, baseline.root)


def _far(scenario: Scenario, other: Scenario) -> tuple[bool, int]:
    """How far another scenario is: whether one of its bounds is smaller, and how many settings differ."""
    values = [s.parameter_values({}) for s in (scenario, other)]
    rules = [s.rule_values(s.profile, s.rules) for s in (scenario, other)]
    smaller = any(values[1].get(name, 0) < value for name, value in values[0].items())
    return smaller, sum(a.get(n) != b.get(n) for a, b in (values, rules) for n in {*a, *b})
