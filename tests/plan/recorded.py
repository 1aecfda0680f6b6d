"""Recorded clusters, moment by moment: does a plan's search contain every state that the partitions then had?

A moment is an action of the recording (a signal to a broker, a request of the operator). The search begins in the state
before it, with the action as the plan. Every state of a partition up to the next moment must be one that it reaches.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from highwater.checker.engines.native.state_graph import VisitedStates, visited
from highwater.checker.engines.state_graph import Layout
from highwater.checker.plan.answer import NAMES
from highwater.checker.plan.kinds import ObservedCluster, PartitionKind
from highwater.checker.plan.search import Searches
from highwater.checker.plan.steps import OperatorStep, Plan, read_plan
from highwater.checker.scenarios.search import SearchOptions
from highwater.traces.kafka.copies import open_copies
from highwater.traces.kafka.metadata_log import Gap
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.replay import Reading, replay_metadata
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report

FIELDS = ("replicas", "isr", "elr", "leader", "adding", "removing")
_SIGNALS = {"kill -9": "kill", "SIGTERM": "restart"}
_SIGNAL = re.compile(r"(kill -9|SIGTERM) node (\d+)$")
_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")


@dataclass(frozen=True)
class Action:
    """An action before the batch with this number: what it is called, and its option of ``plan`` or its step."""

    batch: int
    option: tuple[str, str] | OperatorStep


@dataclass
class Found:
    """The counts of one recording. ``missed`` are states that no search reaches, each with its moment."""

    moments: int = 0
    states: int = 0
    by_faults: Counter[int] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """The outcomes that followed; "lost" counts unclean elections whose search also foresees a loss."""
    unforeseen: list[tuple[str, str, str]] = field(default_factory=list)
    """The outcomes that no search names, each with its partition and moment."""
    missed: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


def actions(folder: Path, path: Path) -> list[Action]:
    """The actions of a recording: signals by their times, and requests of the operator by the records they cause."""
    batches = [e[1] for e in open_copies(path, ()).batches() if not isinstance(e, Gap)]
    times, ends = [b.timestamp for b in batches], [b.last_offset for b in batches]
    found: list[Action] = []
    for line in (folder / "events.ndjson").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        what = event.get("what", "") if event["type"] == "step" else ""
        if match := _SIGNAL.match(what):
            found.append(Action(bisect_left(times, event["t"]), (_SIGNALS[match[1]], match[2])))
        if what == "final shutdown":
            found.append(Action(bisect_left(times, event["t"]), ("restart", "all")))

    def change(change: PartitionChange) -> None:
        step = _request(change)
        if step is not None:
            found.append(Action(bisect_left(ends, change.position), step))

    def record(offset: int, time: int, kind: str, data: Mapping[str, Any]) -> None:
        if (
            kind == "CONFIG_RECORD"
            and data["name"] in _SETTINGS
            and data["value"] is not None
            and offset >= 0
        ):
            topic = f",topic={data['resourceName']}" if data["resourceType"] == 2 else ""
            found.append(Action(bisect_left(ends, offset), ("set", f"{data['name']}={data['value']}{topic}")))

    replay_metadata(
        open_copies(path, ()), Report("", "log", ""), watch=Watch(on_change=[change], on_record=[record])
    )
    return sorted(found, key=lambda action: action.batch)


def _request(change: PartitionChange) -> OperatorStep | None:
    """The operator's request that causes a change; None if it has another cause."""
    before, after = change.before, change.after
    causes = (change.cause or "").split(" or ")
    if before is None or after is None:
        return None
    name = frozenset([change.name])
    if "cancel_reassignment" in causes:
        return OperatorStep("CANCEL_REASSIGNMENT", "cancel", partitions=name)
    if "reassign" in causes:
        target = tuple(b for b in after.replicas if b not in after.removing)
        return OperatorStep(
            "REASSIGN", f"reassign to {target}", partitions=name, targets={change.name: target}
        )
    if "elect_leader" in causes:
        kind = "ELECT_UNCLEAN" if before.leader is None else "ELECT_PREFERRED"
        return OperatorStep(kind, kind, partitions=name)
    return None


def _plan(found: list[Action], cluster: ObservedCluster) -> Plan:
    steps: list[OperatorStep] = []
    for action in found:
        option = action.option
        if isinstance(option, OperatorStep):
            steps.append(option)
        elif option[0] == "set":
            if option[1].partition(",topic=")[2] in ("", *cluster.image.names):
                steps += read_plan([option], cluster.image).steps
        elif option[1] == "all" or int(option[1]) in cluster.image.brokers:
            steps += read_plan([option], cluster.image).steps
    return Plan(" ".join(s.text for s in steps), tuple(steps))


class _Window:
    """The states that partitions can have from one moment to the next."""

    def __init__(self, cluster: ObservedCluster, plan: Plan, faults: int, models: Searches) -> None:
        self.kinds: dict[str, PartitionKind] = {}
        self.plan = plan
        self.faults, self._models = faults, models
        self.ended: set[str] = set()
        for kind in cluster.kinds(plan, faults):
            for partition, _ in kind.partitions:
                self.kinds[partition.name] = kind
        self.brokers = {p.name: slots for k in self.kinds.values() for p, slots in k.partitions}
        self._seen: dict[int, tuple[Any, VisitedStates]] = {}

    def faults_to(self, name: str, state: dict[str, Any]) -> int | None:
        """The fewest faults with which a partition reaches a state; None if it does not.

        If records are lost in that state, nothing is searched after it, and the partition is not checked any further.
        """
        kind, brokers = self.kinds[name], self.brokers[name]
        model, found = self._search(kind)
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        if (
            not {b for f in ("replicas", "isr", "elr", "adding", "removing") for b in state[f]}
            <= slots.keys()
        ):
            return None
        layout, paths = Layout(model.leaves), [leaf.path for leaf in model.leaves]

        def column(path: str) -> Any:
            slot = layout.slots[paths.index(path)]
            raw = found.states[:, slot.word] >> np.uint64(slot.shift) & np.uint64((1 << slot.bits) - 1)
            return raw.astype(np.int64) + slot.low

        t = model.protocol.t
        wanted = {f: state[f] for f in FIELDS if f not in ("replicas", "leader")}
        wanted = {f: [slots[b] for b in members] for f, members in wanted.items()}
        wanted["replicas"] = [slots[b] for b in state["replicas"]]
        wanted["leader"] = None if state["leader"] is None else slots[state["leader"]]
        match = np.ones(len(found.states), dtype=bool)
        for name_, value in wanted.items():
            type_ = t.partition.fields[name_]
            scalars = type_.encode(sorted(value) if name_ not in ("replicas", "leader") else value)
            for leaf, scalar in zip(type_.leaves(f"partition.{name_}"), scalars, strict=True):
                match &= column(leaf.path) == scalar
        if not match.any():
            return None
        if column("lost")[match].all():
            self.ended.add(name)
        return self.faults - int(column("faults_left")[match].max())

    def knows(self, name: str) -> bool:
        """True if the window has the partition, and no loss has ended its search."""
        return name in self.kinds and name not in self.ended

    def outcomes(self, name: str, before: dict[str, Any] | None, state: dict[str, Any]) -> Iterator[str]:
        """The outcomes that a recorded state shows."""
        least = min(size for size, _ in self.kinds[name].settings)
        if state["leader"] is None:
            yield "offline"
        elif len(state["isr"]) < min(least, len(state["replicas"])):
            yield "min-isr"
        if before is not None and state["leader"] not in (
            None,
            before["leader"],
            *before["isr"],
            *before["elr"],
        ):
            yield "unclean"
            if "lost" in self.named(name):
                yield "lost"

    def named(self, name: str) -> set[str]:
        """The outcomes that the search names for a partition."""
        starts = self.kinds[name].starts
        self._models.search(starts)
        found = {goal for start in starts for goal in self._models.outcomes(start)}
        return {short for short, goal in NAMES.items() if goal in found}

    def _search(self, kind: PartitionKind) -> tuple[Any, VisitedStates]:
        if id(kind) not in self._seen:
            model = self._models.model(kind.starts[0].shape)
            found = visited(model.beginning([s.scalars for s in kind.starts]), SearchOptions())
            self._seen[id(kind)] = model, found
        return self._seen[id(kind)]


def follow(folder: Path, faults: int) -> Found:
    """Check a recording, with up to ``faults`` faults beside each action."""
    found, path = Found(), folder / "__cluster_metadata-0"
    todo = actions(folder, path)
    log = open_copies(path, ())
    report = Report(str(path), log.kind, "")
    follower = MetadataFollower(report)
    models = Searches()
    window: _Window | None = None
    last: dict[str, dict[str, Any]] = {}
    for number, _ in enumerate(Reading(log, follower, report).followed(), 1):
        for partition in follower.image.of_topics():
            state = {f: getattr(partition.observed, f) for f in FIELDS}
            if window is not None and state != last.get(partition.name) and window.knows(partition.name):
                found.states += 1
                needed = window.faults_to(partition.name, state)
                for outcome in window.outcomes(partition.name, last.get(partition.name), state):
                    found.outcomes[outcome] += 1
                    if outcome not in window.named(partition.name):
                        found.unforeseen.append((partition.name, window.plan.text, outcome))
                if needed is None:
                    found.missed.append((partition.name, window.plan.text, state))
                else:
                    found.by_faults[needed] += 1
            last[partition.name] = state
        if here := [a for a in todo if a.batch == number]:
            cluster = ObservedCluster(
                follower.image, follower.beliefs, follower.rules.rules, follower.rules.profile
            )
            if cluster.image.partitions:
                window = _Window(cluster, _plan(here, cluster), faults, models)
                found.moments += 1
    return found


def recordings(root: Path) -> Iterator[Path]:
    """The folders of all recorded clusters with events."""
    yield from sorted(path.parent for path in root.glob("clusters/*/events.ndjson"))


if __name__ == "__main__":
    import sys

    for folder in recordings(Path(sys.argv[1])):
        if len(sys.argv) <= 3 or sys.argv[3] in str(folder):
            one = follow(folder, int(sys.argv[2]))
            counts = (
                one.moments,
                one.states,
                dict(one.by_faults),
                dict(one.outcomes),
                one.unforeseen,
                one.missed,
            )
            print(folder.name, *counts, flush=True)
