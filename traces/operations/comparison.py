"""Where the model and a recorded line disagree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from highwater.traces.operations.format import Operation, Record
from highwater.traces.operations.outcome import Outcome
from highwater.traces.operations.recorded_form import recorded_form, whole_state
from highwater.traces.operations.state import ControllerState

Difference = tuple[str, tuple[Any, Any]]
"""The path of a field, and its values: the model's and the recorded one."""


def differences(state: ControllerState, op: Operation, outcome: Outcome) -> Iterator[Difference]:
    """What differs between the line, and the model's outcome and state after it; nothing where they agree.

    Raises LanguageError, perhaps after some differences, where the state has no recorded form.
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
    after = recorded_form(state)
    partitions = {f"{topic}-{number}": p for (topic, number), p in op.partitions.items()}
    yield from _in_state("partitions", after["partitions"], partitions)
    yield from _in_state("brokers", after["brokers"], op.brokers)
    if op.elr_version is not None:
        more = whole_state(state)
        yield from _unequal("elrVersion", more["elrVersion"], op.elr_version)
        yield from _unequal("elrIndexExtra", more["elrIndexExtra"], sorted(op.elr_index))


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
