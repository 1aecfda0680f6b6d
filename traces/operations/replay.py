"""Replay recorded operations: compare the model's decision about each operation with the recorded decision.

Replay also reports the partition properties that an operation violates. A recording has no replica logs, so replay
computes the replicas with every committed record for two cases:

- Best case: no broker has lost a record.
- Worst case: each broker with an unclean shutdown has lost its log.

A property that fails in both cases is certainly violated. A property that fails in only one case is possibly violated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from highwater.model.language.errors import LanguageError
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.controller_stepper import controller_stepper
from highwater.traces.metadata.beliefs.evidence import held
from highwater.traces.metadata.reporting import finding
from highwater.traces.operations.decide import Decided, NotKnown, decide
from highwater.traces.operations.read_recording import (
    Key,
    Operation,
    Record,
    RecordingMeta,
    read_controller_trace,
)
from highwater.traces.operations.state import ControllerState, suppositions
from highwater.traces.reading import TraceError, printable
from highwater.traces.reports.findings import LIMIT, Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import MIN_ISR, PartitionState
from highwater.traces.reports.report import Report
from highwater.traces.rules.profiles import RuleSet, rule_set

# --- decision and recording compared ------------------------------------------------------------------------

Difference = tuple[str, tuple[Any, Any]]
"""The path of a field, and its two values: the model's and the recorded one."""


def differences(state: ControllerState, op: Operation, outcome: Decided) -> Iterator[Difference]:
    """Yield the differences between a recorded line and the model's decision and state; none if the line conforms.

    Raises LanguageError, perhaps after some differences, if the state has no recorded form.
    """
    assert state.next_offset is not None
    yield from _unequal("i", state.step, op.step)
    yield from _unequal("nextOffset", state.next_offset - outcome.record_count, op.next_offset)
    if op.time_ms < state.now_ms:
        yield "timeMs", (f"at least {state.now_ms}", op.time_ms)
    for name, value in outcome.annotations.items():
        yield from _unequal(f"op.{name}", value, op.arguments[name])
    yield from _unequal("error", outcome.error, op.error)
    yield from _unequal("response", outcome.response, op.response)
    yield from _in_records(outcome.records, op.records)
    after = state.recorded_form()
    partitions = {f"{topic}-{number}": p for (topic, number), p in op.partitions.items()}
    yield from _in_state("partitions", after["partitions"], partitions)
    yield from _in_state("brokers", after["brokers"], op.brokers)
    if op.elr_version is not None:
        yield from _unequal("elrVersion", state.elr_version, op.elr_version)
        yield from _unequal("elrIndexExtra", state.stale_entries(), sorted(op.elr_index))


def _unequal(path: str, model: Any, recorded: Any) -> Iterator[Difference]:
    if model != recorded:
        yield path, (model, recorded)


def _in_state(what: str, model: dict[Any, Any], recorded: dict[Any, Any]) -> Iterator[Difference]:
    for key in sorted({*model, *recorded}, key=str):
        ours, theirs = model.get(key), recorded.get(key)
        if ours is None or theirs is None:
            yield from _unequal(f"{what}[{key}]", ours, theirs)
            continue
        for name in [name for name in ours if name in theirs]:
            yield from _unequal(f"{what}[{key}].{name}", ours[name], theirs[name])


def _in_records(groups: list[list[Record]], recorded: list[Record]) -> Iterator[Difference]:
    if sum(len(group) for group in groups) != len(recorded):
        kinds = [kind for group in groups for kind, _, _ in group]
        yield "records", (kinds, [kind for kind, _, _ in recorded])
        return
    start = 0
    for group in groups:
        found = recorded[start : start + len(group)]
        pairs = zip(sorted(group, key=_by_partition), sorted(found, key=_by_partition), strict=True)
        for position, (model, theirs) in enumerate(pairs, start=start):
            yield from _in_record(f"records[{position}]", model, theirs)
        start += len(group)


def _in_record(at: str, model: Record, recorded: Record) -> Iterator[Difference]:
    if model[0] != recorded[0]:
        yield f"{at}.type", (model[0], recorded[0])
        return
    yield from _unequal(f"{at}.version", model[1], recorded[1])
    for name in sorted({*model[2], *recorded[2]}):
        ours, theirs = model[2].get(name, "not written"), recorded[2].get(name, "not written")
        yield from _unequal(f"{at}.data.{name}", ours, theirs)


def _by_partition(record: Record) -> tuple[str, str, int]:
    kind, _, data = record
    return kind, str(data.get("topicId", "")), int(data.get("partitionId", 0))


# --- violated properties ------------------------------------------------------------------------------------

_CHOSEN = (
    "alterPartitionReassignments", "incrementalAlterConfigs", "unregisterBroker", "updateFeatures", "registerBroker",
)  # fmt: skip
"""Operations after which fewer than min ISR copies of a committed record may remain, even if no log is lost.

An operator chose so; or a broker registers, counts as unclean, and therefore leaves ISR and ELR."""
Logs = Mapping[str, Any]
"""``complete``: the replicas with every committed record. ``diminished``: True if they may be fewer than min ISR."""


@dataclass(frozen=True)
class _Watched:
    partition: dict[str, Any]
    logs: tuple[Logs, Logs]
    violated: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()


class PartitionWatch:
    """The partitions of one recording, with the violated properties of each."""

    def __init__(self) -> None:
        self._known: dict[Key, _Watched] = {}

    def after(self, op: Operation, before: ControllerState, state: ControllerState) -> Iterator[Finding]:
        """The properties whose violation begins, or becomes certain, with an operation.

        ``before`` and ``state`` are the controller's states before and after the operation.
        """
        lost = _lost(op, before)
        for key in state.partitions:
            known = self._next(op, key, lost, state)
            old = self._known.get(key)
            self._known[key] = known
            for name in sorted(known.violated | known.doubtful):
                certain = name in known.violated
                if old is None or (name not in old.violated and (certain or name not in old.doubtful)):
                    after = PartitionState.of(state.partitions[key])
                    found = finding(name, certain, f"{key[0]}-{key[1]}", after, 0, op.time_ms, {})
                    yield replace(found, position={"line": op.line, "step": op.step})

    def _next(self, op: Operation, key: Key, lost: list[int], state: ControllerState) -> _Watched:
        new, known = state.as_seen(key), self._known.get(key)
        setting = int(state.config(key[0], MIN_ISR))
        if known is None:
            logs: Logs = {"complete": new["isr"], "diminished": len(new["isr"]) < state.min_isr(key[0])}
            both = (logs, logs)
        else:
            joins = op.name == "alterPartition" and (op.arguments["topic"], op.arguments["partition"]) == key
            arguments = {
                "old": known.partition,
                "new": new,
                "min_insync_replicas": setting,
                "joining": new["isr"] if joins else [],
                "chosen": op.name in _CHOSEN,
            }
            best, worst = known.logs
            both = (
                state.model.completeness(**arguments, **best, lost=[]),
                state.model.completeness(**arguments, **worst, lost=lost),
            )
        least, most = (self._violated(key, new, setting, one, state) for one in both)
        return _Watched(new, both, least & most, least ^ most)

    def _violated(
        self, key: Key, partition: dict[str, Any], setting: int, logs: Logs, state: ControllerState
    ) -> frozenset[str]:
        actions = controller_stepper(state.count + 1, state.model.t.rules)
        first = state.partitions.get((key[0], 0)) if key[1] else None
        plain = {
            "registrations": [{**r, "epoch": 0} for r in state.registrations],
            "partition": {**partition, "leader_epoch": 0, "partition_epoch": 0},
            "min_insync_replicas": held(setting),
            "unclean_election": state.unclean_election(key[0]),
            "first_partition_replicas": 0 if first is None else len(first["replicas"]),
            **logs,
        }
        if actions.protocol.has_index:
            most = actions.protocol.p.max_elr_entries
            entries = (state.entries.get((b, *key), 0) for b in range(state.count + 1))
            plain["elr_entries"] = [min(number, most) for number in entries]
        return actions.violated(actions.encode(plain)) - MEASURED


def _lost(op: Operation, before: ControllerState) -> list[int]:
    """The broker that registers by this operation and, in the worst case, has lost its log; a list of at most one.

    Such a broker registers with a new incarnation after an unclean shutdown.
    """
    if op.name != "registerBroker" or op.error != "NONE":
        return []
    args = op.arguments
    broker = args["broker"]
    registration = before.registrations[broker]
    clean = registration["registered"] and args["previousBrokerEpoch"] == registration["epoch"]
    return [] if clean or before.incarnations.get(broker) == args["incarnation"] else [broker]


# --- replay -------------------------------------------------------------------------------------------------


class ControllerReplay:
    """The model's controller. It decides recorded operations one after another."""

    def __init__(self, meta: RecordingMeta, rules: frozenset[str]) -> None:
        self.state = ControllerState.at_start(meta, rules)

    def take(self, op: Operation) -> Unexplained | None:
        """Decide one operation; returns a report entry if the recording differs, or None if the operation conforms.

        If the decision can depend on facts that the recording lacks, each possibility is tried. Raises NotKnown if
        the model has no rules for the operation. After NotKnown or a difference, ``state`` is the recorded state.
        """
        kept, before = self.state, self.state.recorded_form()
        candidates: list[Candidate] = []
        for suppose in (_as_recorded, *suppositions(kept, op)):
            self.state = kept.copy()
            wrong: dict[str, tuple[Any, Any]] = {}
            outcome = Decided()
            try:
                suppose(self.state)
                outcome = decide(self.state, op)
                for path, values in differences(self.state, op, outcome):
                    wrong[path] = values
            except NotKnown:
                self.state.adopt(kept, op)
                raise
            except LanguageError as left:
                wrong["the model"] = (str(left), "recorded")
            if not wrong:
                return None
            candidates.append(Candidate(op.name, op.arguments, outcome.refused_by, outcome.passed, wrong))
        self.state.adopt(kept, op)
        candidates.sort(key=lambda c: len(c.differences))
        return _unexplained(op, before, candidates)


def _as_recorded(state: ControllerState) -> None:
    """The supposition that assumes nothing beyond the recording."""


def _unexplained(op: Operation, before: Mapping[str, Any], candidates: list[Candidate]) -> Unexplained:
    """The report entry for a line that does not conform; ``before`` is the recorded form of the state before it."""
    nearest = candidates[0].differences
    concerned = [
        k for k in sorted(before["partitions"]) if any(f"partitions[{k}]" in path for path in nearest)
    ]
    if op.arguments.get("topic") is not None and "partition" in op.arguments:
        concerned = [f"{op.arguments['topic']}-{op.arguments['partition']}"]
    return Unexplained(
        {"line": op.line, "step": op.step},
        op.time_ms,
        concerned[0] if concerned else None,
        {
            "partitions": {k: v for k, v in before["partitions"].items() if k in concerned},
            "brokers": {str(k): v for k, v in before["brokers"].items()},
        },
        tuple(candidates),
    )


def replay_operations(
    meta: RecordingMeta, operations: Iterator[Operation], rules: frozenset[str], report: Report
) -> Iterator[int]:
    """Replay operations and add the results to ``report``; yields the number of operations so far, after each one.

    Raises TraceError if the recording cannot be read.
    """
    started = time.perf_counter()
    replay, watch = ControllerReplay(meta, rules), PartitionWatch()
    newer = meta.newer
    if newer is not None:
        report.doubts.append(Doubt("newer version", newer, {"line": 1}))
    not_known: set[str] = set()
    for op in operations:
        report.operations += 1
        report.records += len(op.records)
        report.changes += sum(kind == "PARTITION_CHANGE_RECORD" for kind, _, _ in op.records)
        wrong, before = None, replay.state
        try:
            wrong = replay.take(op)
        except NotKnown as unknown:
            name = printable(unknown, 100)
            report.skipped[name] = report.skipped.get(name, 0) + 1
            if name not in not_known and len(not_known) < LIMIT:
                not_known.add(name)
                summary = f"an operation that the rules do not have: {name}"
                position = {"line": op.line, "step": op.step}
                report.doubts.append(Doubt("unknown operation", summary, position, ()))
        if wrong is not None:
            report.add(replace(wrong, reliable=newer is None))
        for found in watch.after(op, before, replay.state):
            report.find(replace(found, reliable=newer is None))
        report.partitions = len(replay.state.partitions)
        report.seconds = time.perf_counter() - started
        yield report.operations


KIND = "controller operations"
PROGRESS_EVERY = 100


def rules_in_force(
    meta: RecordingMeta, profile: str | None = None, rules: Mapping[str, bool] | None = None
) -> RuleSet:
    """The rules to replay with: those of ``profile``, or else of the recording; ``rules`` switches single rules.

    Raises LanguageError for a profile or a rule that does not exist.
    """
    if profile is not None:
        return rule_set(profile, rules)
    return rule_set(meta.profile, rules, ("clean_registration",) * meta.clean_aware_registration)


def replay_recording(
    file: Path,
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Replay a recording of controller operations.

    ``profile`` and ``rules`` override the rules of the recording. After KeyboardInterrupt the report has the results
    so far (``Report.interrupted``). Raises TraceError if the file cannot be read, and LanguageError if the profile or a
    rule does not exist.
    """
    if file.exists() and not file.is_file():
        raise TraceError(file, None, None, "not a file")
    meta, operations = read_controller_trace(file)
    chosen = rules_in_force(meta, profile, rules)
    report = Report(str(file), KIND, chosen.profile, tuple(sorted(chosen.rules)))
    try:
        for done in replay_operations(meta, operations, chosen.rules, report):
            if progress and done % PROGRESS_EVERY == 0:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report
