"""The answer to a question about a plan as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from highwater.checker.base.text import aligned, columns
from highwater.checker.plan.answer import BAD, GOALS, NAMES, SETTINGS, PlanAnswer, Risk, down_to
from highwater.traces.reading import printable
from highwater.traces.reports.text import count, fold

TITLES = {
    "lost": "lose committed records",
    "stuck": "stay offline",
    "fails": "break the controller",
    "offline": "be offline until brokers return",
    "unclean": "elect a leader uncleanly",
    "min-isr": "refuse writes with acks=all",
}
_SHOWN = ("isr", "elr", "leader", "replicas", "adding", "removing", "last_known_leader", "offline")
"""The fields of a partition that a run shows."""
MOST_RUNS = 3
"""The most runs of the text for each outcome."""
MOST_NAMED = 1000
"""The most partitions that the JSON names for each finding."""


@dataclass(frozen=True)
class RunStep:
    """A step of a run, with brokers' ids: its action, its sentence, and the changes as pairs of texts by field.

    ``roles`` has the role of each slot's broker after the step: leader, isr, elr, "" or, if it is fenced, down.
    """

    action: str
    sentence: str
    changes: Mapping[str, tuple[str, str]]
    roles: tuple[str, ...]


def run_steps(found: PlanAnswer, finding: Risk) -> list[RunStep]:
    """The run of a finding on one of its partitions."""
    brokers = finding.kind.partitions[0][1]
    steps, before = [], found.searches.model(finding.start.shape).decode(finding.start.scalars)
    for instance, after in found.searches.run(finding.start, finding.reached.path):
        values = instance.said | {
            n: brokers[v] for n, v in instance.parameters.items() if n in ("broker", "winner")
        }
        changes = _changes(_described(before, brokers), _described(after, brokers))
        steps.append(
            RunStep(instance.action.name, instance.action.says.format(**values), changes, _roles(after))
        )
        before = after
    return steps


def _roles(state: Mapping[str, Any]) -> tuple[str, ...]:
    partition = state["partition"]
    return tuple(
        "leader"
        if partition["leader"] == slot
        else next(
            (name for name in ("isr", "elr") if slot in partition[name]), "down" * registration["fenced"]
        )
        for slot, registration in enumerate(state["registrations"])
    )


def now(found: PlanAnswer, finding: Risk) -> dict[str, str]:
    """The state of a finding's partition when the plan begins."""
    state = found.searches.model(finding.start.shape).decode(finding.start.scalars)
    return _described(state, finding.kind.partitions[0][1])


def _described(state: Mapping[str, Any], brokers: tuple[int, ...]) -> dict[str, str]:
    """A partition's fields and min ISR as text."""
    partition = state["partition"]
    found = {name: _named(partition[name], brokers) for name in _SHOWN if name in partition}
    down = [slot for slot, registration in enumerate(state["registrations"]) if registration["fenced"]]
    return found | {"down": _named(down, brokers), "min.insync.replicas": str(state["min_insync_replicas"])}


def now_line(found: PlanAnswer, finding: Risk) -> str:
    """The state of a finding's partition when the plan begins, as text."""
    return ", ".join(
        f"{n} {v}" for n, v in now(found, finding).items() if v != "none" or n in ("isr", "leader")
    )


def _named(slots: int | list[int] | None, brokers: tuple[int, ...]) -> str:
    members = [slots] if isinstance(slots, int) else slots or []
    return ",".join(str(brokers[slot]) if slot >= 0 else "unknown" for slot in members) or "none"


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


# --- text -----------------------------------------------------------------------------------------------------


def headline(found: PlanAnswer, fail_on: str = BAD[-1], *, only_added: bool = False) -> str:
    """The answer in one line: the worst outcome that the plan adds, else the worst that happens without it, too.

    It ends with the time of the log's last record.

    ``fail_on`` is the least outcome that counts. ``only_added``: only outcomes that the plan adds.
    """
    return f"{_worst(found, down_to(fail_on), only_added)} (as of {found.cluster.as_of})"


def _worst(found: PlanAnswer, outcomes: list[str], only_added: bool) -> str:
    whole = count(found.partitions, "partition")
    for added in (True,) if only_added else (True, False):
        for outcome, faults in product(outcomes, range(found.faults + 1)):
            if number := found.count(outcome, faults, added=added):
                needs = {
                    f.condition for f in found.findings if f.outcome == outcome and f.reached.faults <= faults
                }
                condition = f", if {needs.pop()}" if len(needs) == 1 and needs != {""} else ""
                also = "" if added else "; also without the plan"
                least = "at least " * (found.searches.stopped_by is not None)
                return f"{least}{number:,} of {whole} can {TITLES[outcome]} {_with(faults)}{condition}{also}"
    none = f"no partition of {found.partitions:,} can {' or '.join(TITLES[o] for o in outcomes)}"
    if why := found.why_incomplete:
        return f"NOT KNOWN: {printable(why, 300)}; as far as is known, {none}"
    return f"SAFE {_with(found.faults)}: {'because of the plan, ' if only_added else ''}{none}"


def _with(faults: int) -> str:
    return f"with {count(faults, 'fault')}" if faults else "without a fault"


def lines(found: PlanAnswer, width: int | None, *, verbose: bool = False) -> Iterator[str]:
    """The lines of the text report below the headline."""
    plan, rules = printable(found.plan.text, 300), found.cluster.profile
    yield from fold(f"{plan}; up to {count(found.faults, 'fault')}; rules {rules}", "  ", width, "    ")
    table = list(outcome_table(found))
    if len(table) > 1:
        yield "  partitions that can"
        yield from (
            f"    {'  '.join((*cells, last))}" for *cells, last in aligned(table, range(1, found.faults + 3))
        )
    for outcome in NAMES:
        own = [f for f in found.findings if f.outcome == outcome]
        if not verbose and outcome not in BAD:
            continue
        for finding in own if verbose else own[:MOST_RUNS]:
            yield ""
            yield from _finding(found, finding, width)
        if not verbose and len(own) > MOST_RUNS:
            yield ""
            left = count(len(own) - MOST_RUNS, "more kind")
            yield f"{left} of partition can {TITLES[outcome]}: see --verbose or --html"
    if found.never_ends:
        names = [p.name for kind in found.never_ends for p, _ in kind.partitions]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield ""
        yield from fold(f"The plan never ends: a wait has no end for {names[0]}{more}", "", width, "  ")
    if found.instead is not None:
        change = found.instead
        result = f"adds no risk for {change.of - change.left:,} of {change.of:,} partitions"
        yield ""
        yield from fold(f"Instead: {change.text}: {result} {_with(found.faults)}", "", width, "  ")
    yield ""
    for note in notes(found):
        yield from fold(note, "  ", width, "    ")


def outcome_table(found: PlanAnswer) -> Iterator[list[str]]:
    """The rows of the table of outcomes, with the numbers of partitions; the first row has the titles.

    If the search ended early, the numbers are lower bounds.
    """
    least = "≥ " * (found.searches.stopped_by is not None)
    faults = ["no fault", *(count(n, "fault") for n in range(1, found.faults + 1))]
    yield ["", *faults, f"without the plan, {faults[-1]}"]
    for outcome, title in TITLES.items():
        counts = [found.count(outcome, faults) for faults in range(found.faults + 1)]
        if any(counts):
            alone = found.count(outcome, found.faults, alone=True)
            yield [title, *(f"{least}{n:,}" for n in (*counts, alone))]


def title_of(finding: Risk) -> str:
    """The finding in a sentence, with one partition of its kind."""
    partition, others = finding.kind.partitions[0][0], len(finding.kind.partitions) - 1
    more = f" and {others:,} of its kind" if others else ""
    condition = f", if {finding.condition}" if finding.condition else ""
    also = "" if finding.added else " (also without the plan)"
    return f"{partition.name}{more} can {TITLES[finding.outcome]} {_with(finding.reached.faults)}{condition}{also}"


def _finding(found: PlanAnswer, finding: Risk, width: int | None) -> Iterator[str]:
    yield from fold(title_of(finding), "", width, "  ")
    yield from fold(f"now: {now_line(found, finding)}", "  ", width, "    ")
    rows = []
    for number, step in enumerate(run_steps(found, finding), 1):
        changes = "; ".join(f"{name} {a} → {b}" for name, (a, b) in step.changes.items())
        rows.append([f"{number:3}", step.sentence, changes])
    yield from columns(rows, "  ", width)
    if finding.unless:
        who = " or ".join(map(str, finding.unless))
        yield from fold(
            f"If broker {who} has every committed record, none is lost in this way.", "  ", width, "    "
        )
    if finding.defect is not None:
        yield from fold(
            f"Known defect: {finding.defect.title} See {finding.defect.entry}", "  ", width, "    "
        )


def notes(found: PlanAnswer) -> Iterator[str]:
    """The assumptions of the answer, and the reasons why it is incomplete."""
    if why := found.why_incomplete:
        yield f"More can happen: {printable(why, 1000)}."
    yield from found.cluster.notes
    yield (
        "A metadata log does not show which replica outside the ISR has caught up: none counts as caught up. A broker "
        "that is killed keeps its log; a lost log is a fault."
    )
    for place, value in enumerate(found.cluster.assumed):
        kinds = [kind for kind in found.kinds if all(one[place] != value for one in kind.settings)]
        if value is not None and kinds:
            where = count(sum(len(kind.partitions) for kind in kinds), "partition")
            given = f"--assume {SETTINGS[place]}={str(value).lower()}"
            yield f"{given} does not count for {where}: the log has another value."
    unknown = [
        name
        for place, name in enumerate(SETTINGS)
        if any(len({one[place] for one in kind.settings}) > 1 for kind in found.kinds)
    ]
    if unknown:
        yield f"Not in the log, so that every value counts: {', '.join(unknown)}; --assume NAME=VALUE sets one."


# --- JSON -------------------------------------------------------------------------------------------------------


def to_json(found: PlanAnswer, source: str, seconds: float) -> dict[str, Any]:
    """The answer as plain data for ``--json``."""
    per_fault = range(found.faults + 1)
    return {
        "input": source,
        "profile": found.cluster.profile,
        "plan": [step.text for step in found.plan.steps],
        "faults": found.faults,
        "partitions": found.partitions,
        "outcomes": {
            outcome: {
                "by_faults": [found.count(outcome, n) for n in per_fault],
                "without_plan": [found.count(outcome, n, alone=True) for n in per_fault],
            }
            for outcome in NAMES
        },
        "findings": [_finding_json(found, finding) for finding in found.findings],
        "never_ends": [p.name for kind in found.never_ends for p, _ in kind.partitions][:MOST_NAMED],
        "instead": None
        if found.instead is None
        else vars(found.instead) | {"plan": [step.text for step in found.instead.plan.steps]},
        "assumptions": list(notes(found)),
        "incomplete": found.why_incomplete,
        "distinct_states": found.searches.states,
        "seconds": round(seconds, 3),
    }


def _finding_json(found: PlanAnswer, finding: Risk) -> dict[str, Any]:
    partition = finding.kind.partitions[0][0]
    goal = GOALS[NAMES[finding.outcome]]
    return {
        "outcome": finding.outcome,
        "rule": goal.source,
        "faults": finding.reached.faults,
        "without_plan": finding.alone,
        "added": finding.added,
        "condition": finding.condition,
        "unless_complete": list(finding.unless),
        "defect": None if finding.defect is None else finding.defect.to_json(),
        "partition": partition.name,
        "count": len(finding.kind.partitions),
        "partitions": [p.name for p, _ in islice(finding.kind.partitions, MOST_NAMED)],
        "now": now(found, finding),
        "run": [vars(step) for step in run_steps(found, finding)],
    }
