"""The answer to a question about a plan: what each kind of partition can come to, and what makes a plan safer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.plan.kinds import ObservedCluster, PartitionKind, PlanStart
from highwater.checker.plan.search import Reached, Searches
from highwater.checker.plan.steps import OperatorStep, Plan, read_plan, waiting
from highwater.invariants.replication.outcomes import OUTCOMES, the_plan_is_done
from highwater.model.language.protocol import Goal
from highwater.model.replication.controller import Controller
from highwater.traces.metadata.beliefs.controller_stepper import encode
from highwater.traces.metadata.image import TOPIC
from highwater.traces.reports.findings import Defect, defects
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN
from highwater.traces.reports.text import brokers

NAMES = {
    "lost": "committed_records_are_lost",
    "stuck": "the_partition_stays_offline",
    "fails": "the_controller_fails",
    "offline": "the_partition_is_offline",
    "unclean": "a_leader_is_elected_uncleanly",
    "min-isr": "writes_stop",
}
"""The outcomes by their short names, the worst first."""
GOALS: dict[str, Goal] = {goal.name: goal for goal in OUTCOMES}
SETTINGS = (MIN_ISR, UNCLEAN)
"""The settings of a start, in their order there."""
BAD = ("lost", "stuck", "fails")
"""The outcomes that do not pass by themselves."""


def down_to(least: str) -> list[str]:
    """The outcomes from the worst to ``least``; "stuck" includes a failing controller."""
    order = list(NAMES)
    return order[: order.index("fails" if least == "stuck" else least) + 1]


_MOST_EXPLAINED = 10
"""The most findings that are searched again without known defects."""
_MOST_ORDERS = 24
"""The most orders of a roll that are tried."""


@dataclass(frozen=True)
class Risk:
    """An outcome that partitions of a kind can come to.

    - ``reached``: the fewest faults and the shortest run, from ``start``
    - ``alone``: the fewest faults with which the outcome happens without the plan; None: it does not
    - ``added``: with some of the possible settings, the outcome does not happen with so few faults without the plan
    - ``condition``: the settings that it needs, in words, if the log does not have them; else ""
    - ``defect``: the known defect of Kafka without which the outcome would not happen so
    - ``unless``: brokers; if one of these has every committed record, no record is lost
    """

    outcome: str
    kind: PartitionKind
    start: PlanStart
    reached: Reached
    alone: int | None
    condition: str
    added: bool
    unless: tuple[int, ...] = ()
    defect: Defect | None = None

    @property
    def name(self) -> str:
        """The name of one partition of the kind."""
        return self.kind.partitions[0][0].name


@dataclass(frozen=True)
class Instead:
    """A change of the plan that makes it safer.

    ``left`` is how many of the ``of`` partitions at risk stay so.
    """

    text: str
    plan: Plan
    left: int
    of: int


@dataclass
class PlanAnswer:
    """The answer: all findings, the worst first, and what to do instead, if anything helps.

    ``never_ends`` are kinds with which the plan is never done, even without a fault.
    """

    plan: Plan
    cluster: ObservedCluster
    faults: int
    kinds: list[PartitionKind]
    findings: list[Risk]
    searches: Searches
    never_ends: list[PartitionKind] = field(default_factory=list)
    instead: Instead | None = None

    def count(self, outcome: str, faults: int, *, alone: bool = False, added: bool = False) -> int:
        """How many partitions can come to an outcome with at most so many faults.

        ``alone``: without the plan. ``added``: only by the plan.
        """
        kinds: dict[int, int] = {}
        for f in self.findings:
            needs = f.alone if alone else f.reached.faults
            if f.outcome == outcome and needs is not None and needs <= faults and (f.added or not added):
                kinds[id(f.kind)] = len(f.kind.partitions)
        return sum(kinds.values())

    @property
    def why_incomplete(self) -> str:
        """The reason why more can happen than the answer lists; "" if it is complete."""
        stopped = self.searches.stopped_by
        reasons = [f"the search ended early ({stopped})"] if stopped else []
        reasons += [
            f"a wait of the plan never ends for {kind.partitions[0][0].name}" for kind in self.never_ends[:1]
        ]
        return "; ".join((*reasons, *self.cluster.doubts))

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return sum(len(kind.partitions) for kind in self.kinds)


def answer(plan: Plan, cluster: ObservedCluster, faults: int, searches: Searches) -> PlanAnswer:
    """Find the outcomes of a plan for a cluster, with up to ``faults`` faults. Raises InputError."""
    kinds = cluster.kinds(plan, faults)
    _refuse(plan, kinds, searches)
    searches.search(start for kind in kinds for start in (*kind.starts, *kind.alone))
    findings = [f for kind in kinds for f in _findings(kind, searches)]
    order = list(NAMES)
    findings.sort(key=lambda f: (order.index(f.outcome), f.reached.faults, not f.added, f.name))
    found = PlanAnswer(plan, cluster, faults, kinds, findings, searches)
    if searches.stopped_by is None:
        found.never_ends = [kind for kind in kinds if not _can_be_done(kind, searches)]
        found.findings = [_explained(f, n, searches) for n, f in enumerate(_narrowed(findings, searches))]
        found.instead = _instead(found)
    return found


def _refuse(plan: Plan, kinds: list[PartitionKind], searches: Searches) -> None:
    """Raises InputError if Kafka refuses a reassignment, or all elections with which the plan begins."""
    for step in plan.steps:
        if step.kind != "REASSIGN" and (not step.kind.startswith("ELECT") or step is not plan.steps[0]):
            continue
        concerned = [kind for kind in kinds if any(own.kind == step.kind for own in kind.own.steps)]
        errors = {
            kind.partitions[0][0].name: searches.refusal(kind.starts[0], step.kind) for kind in concerned
        }
        refused = {name: error for name, error in errors.items() if error != "NONE"}
        if refused and (step.kind == "REASSIGN" or len(refused) == len(errors)):
            name, error = next(iter(refused.items()))
            raise InputError(f"{step.text}: Kafka answers {error} for {name}")


def _can_be_done(kind: PartitionKind, searches: Searches) -> bool:
    reached = [searches.outcomes(start).get(the_plan_is_done.name) for start in kind.starts]
    return any(r is not None and r.faults == 0 for r in reached)


def _findings(kind: PartitionKind, searches: Searches) -> Iterator[Risk]:
    """The findings about a kind. If settings are unknown, there is one for each number of faults that they need."""
    for short, name in NAMES.items():
        found = [(r, s) for s in kind.starts if (r := searches.outcomes(s).get(name)) is not None]
        alone: dict[tuple[int, bool], int] = {}
        for other in kind.alone:
            if (r := searches.outcomes(other).get(name)) is not None:
                alone[other.settings] = min(r.faults, alone.get(other.settings, r.faults))
        for faults in sorted({reached.faults for reached, _ in found}):
            here = [(r, s) for r, s in found if r.faults == faults]
            found = [(r, s) for r, s in found if s.settings not in {s.settings for _, s in here}]
            holds = {s.settings for _, s in here}
            reached, start = min(here, key=lambda pair: len(pair[0].path), default=(None, None))
            if reached is None or start is None:
                continue
            without = min((alone[one] for one in holds if one in alone), default=None)
            added = any(alone.get(one, faults + 1) > faults for one in holds)
            yield Risk(short, kind, start, reached, without, _condition(holds, kind.settings), added)


def _condition(holds: set[tuple[int, bool]], possible: set[tuple[int, bool]]) -> str:
    """The settings that a finding needs, in words; "" if it happens with all that are possible."""
    if holds == possible:
        return ""
    parts = []
    for place, name in enumerate(SETTINGS):
        values = {settings[place] for settings in holds}
        if len(values) < len({settings[place] for settings in possible}):
            parts.append(f"{name} is {' or '.join(str(value).lower() for value in sorted(values))}")
    return " and ".join(parts) or "settings that the log does not have are so"


def margins(
    action: str, broker: str, cluster: ObservedCluster, searches: Searches
) -> Iterator[tuple[int, dict[str, int]]]:
    """For each broker that ``broker`` names (any: each), the partitions by outcome if this is done, without a fault.

    Raises InputError for an unknown broker.
    """
    for one in sorted(cluster.image.brokers) if broker == "any" else [broker]:
        plan = read_plan([(action, str(one))], cluster.image)
        found = PlanAnswer(plan, cluster, 0, cluster.kinds(plan, 0), [], searches)
        searches.search(start for kind in found.kinds for start in kind.starts)
        found.findings = [f for kind in found.kinds for f in _findings(kind, searches)]
        yield int(one), {outcome: found.count(outcome, 0) for outcome in NAMES}


# --- assumptions --------------------------------------------------------------------------------------------


def _narrowed(findings: list[Risk], searches: Searches) -> list[Risk]:
    """The findings, a loss with the brokers that would prevent it if they had every committed record."""
    others: dict[int, dict[int, PlanStart]] = {}
    for number, finding in enumerate(findings):
        if finding.outcome == "lost":
            model = searches.model(finding.start.shape)
            plain = model.decode(finding.start.scalars)
            lacking = [b for b in plain["partition"]["replicas"] if b not in plain["complete"]]
            others[number] = {
                b: _with_complete(finding.start, model.protocol.state, plain, b) for b in lacking
            }
    searches.search(start for of_one in others.values() for start in of_one.values())
    found = list(findings)
    for number, of_one in others.items():
        finding, slots = findings[number], findings[number].kind.partitions[0][1]
        prevents = [slot for slot, start in of_one.items() if _avoids(finding, start, searches)]
        found[number] = replace(finding, unless=tuple(slots[slot] for slot in prevents))
    return found


def _avoids(finding: Risk, start: PlanStart, searches: Searches) -> bool:
    """True if another start does not come to a finding's outcome with as few faults."""
    reached = searches.outcomes(start).get(NAMES[finding.outcome])
    return reached is None or reached.faults > finding.reached.faults


def _explained(finding: Risk, number: int, searches: Searches) -> Risk:
    """The finding with the known defect that leads to it, if it is one of the first that are bad."""
    start = finding.start
    if finding.outcome in BAD and number < _MOST_EXPLAINED:
        for defect in defects().values():
            shape = replace(start.shape, rules=(start.shape.rules | defect.on) - defect.off)
            protocol = searches.model(shape).protocol
            assert isinstance(protocol, Controller)
            plain = searches.model(start.shape).decode(start.scalars)
            closed = replace(start, shape=shape, scalars=encode(protocol, plain))
            searches.search([closed])
            if _avoids(finding, closed, searches):
                return replace(finding, defect=defect)
    return finding


def _with_complete(start: PlanStart, state: Any, plain: dict[str, Any], slot: int) -> PlanStart:
    complete = sorted({*plain["complete"], slot})
    return replace(start, scalars=state.encode({**plain, "complete": complete}))


# --- what to do instead ---------------------------------------------------------------------------------------


def _instead(found: PlanAnswer) -> Instead | None:
    """The least change of the plan that makes it safer for the partitions at risk; None if none helps."""
    at_risk = {name for f in found.findings if f.outcome in BAD and f.added for name in _names(f.kind)}
    if not at_risk:
        return None
    best: Instead | None = None
    for text, plan in _variants(found, at_risk):
        left = _at_risk(plan, found, at_risk)
        if best is None or left < best.left:
            best = Instead(text, plan, left, len(at_risk))
        if not left:
            break
    return best if best is not None and best.left < len(at_risk) else None


def _names(kind: PartitionKind) -> list[str]:
    return [partition.name for partition, _ in kind.partitions]


def _at_risk(plan: Plan, found: PlanAnswer, among: set[str]) -> int:
    """The number of these partitions that a plan puts at risk, or for which it never ends."""
    kinds = [k for k in found.cluster.kinds(plan, found.faults) if among.intersection(_names(k))]
    found.searches.search(start for kind in kinds for start in (*kind.starts, *kind.alone))
    risky = [
        kind
        for kind in kinds
        if not _can_be_done(kind, found.searches)
        or any(f.outcome in BAD and f.added for f in _findings(kind, found.searches))
    ]
    return len(among.intersection(name for kind in risky for name in _names(kind)))


def _variants(found: PlanAnswer, at_risk: set[str]) -> Iterator[tuple[str, Plan]]:
    """Changes of the plan, the least first, each in words."""
    plan, image = found.plan, found.cluster.image
    partitions = [p for kind in found.kinds for p, _ in kind.partitions if p.name in at_risk]
    outside = sorted(
        {b for p in partitions for b in p.replicas if b not in p.observed.isr and not image.flags(b).fenced}
    )
    if outside:
        where = partitions[0].name + (f" and {len(partitions) - 1} more" if len(partitions) > 1 else "")
        yield (
            f"first wait for {brokers(outside)} in the ISR of {where}",
            waiting(plan, outside, first=True),
        )
    if any(p.belief.observed.adding or p.belief.observed.removing for p in partitions):
        going = frozenset(
            p.name for p in partitions if p.belief.observed.adding or p.belief.observed.removing
        )
        cancel = OperatorStep("CANCEL_REASSIGNMENT", "cancel", partitions=going)
        yield "first cancel the reassignments", replace(plan, steps=(cancel, *plan.steps))
    returns = [s.broker for s in plan.steps if s.kind == "AWAIT_RETURN" and s.broker is not None]
    if returns:
        pause = waiting(plan, returns, first=False)
        yield "after each restart, wait until the broker is in the ISR of its partitions", pause
        if outside:
            yield (
                "before the first and after each restart, wait until the brokers are in the ISR",
                waiting(pause, outside, first=True),
            )
        for order in itertools.islice(itertools.permutations(returns), 1, _MOST_ORDERS):
            yield f"in the order {','.join(map(str, order))}", _in_order(plan, order)
    if any(step.kind == "SET_MIN_ISR" and step.topic is None for step in plan.steps):
        configs = found.cluster.image.configs
        topics = [t for t in found.cluster.image.names if MIN_ISR not in configs.get((TOPIC, t), {})]
        steps = [one for step in plan.steps for one in _of_topics(step, topics)]
        text = "set min.insync.replicas for the topics that have no value of their own"
        yield (
            text if topics else "leave it out: every topic has its own value",
            replace(plan, steps=tuple(steps)),
        )


def _of_topics(step: OperatorStep, topics: list[str]) -> list[OperatorStep]:
    """The step or, if it sets the cluster's min.insync.replicas, a step for each of the topics."""
    if step.kind != "SET_MIN_ISR" or step.topic is not None:
        return [step]
    return [replace(step, topic=topic, text=f"{step.text} {topic}") for topic in topics]


def _in_order(plan: Plan, order: Sequence[int]) -> Plan:
    """The plan with its restarts in this order; its other steps stay first."""
    of = {b: [s for s in plan.steps if s.broker == b and s.kind in ("STOP", "AWAIT_RETURN")] for b in order}
    others = [s for s in plan.steps if not any(s in steps for steps in of.values())]
    return replace(plan, steps=(*others, *(s for b in order for s in of[b])))
