"""The steps of an operator's plan: read from options and files, and as one partition sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.traces.metadata.image import TOPIC, Image, Partition
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN
from highwater.traces.reports.text import count
from highwater.traces.rules.profiles import ELR_VERSION

STAYS_AWAY, RETURNS = 0, 1
"""The values of a STOP."""


@dataclass(frozen=True)
class OperatorStep:
    """A step of a plan. ``kind`` is one of ``StepKind``.

    - ``text``: the step in words
    - ``broker``, ``value``: the step's broker and number, if it has them
    - ``partitions``: the names of the partitions that it concerns; None: all
    - ``topic``: for a setting, the topic that gets it; None: the cluster
    - ``targets``: the new replicas by partition, for a reassignment
    - ``directory``: the log directory that is removed
    """

    kind: str
    text: str
    broker: int | None = None
    value: int = 0
    partitions: frozenset[str] | None = None
    topic: str | None = None
    targets: Mapping[str, tuple[int, ...]] | None = None
    directory: str | None = None


@dataclass(frozen=True)
class Plan:
    """An operator's plan. ``text`` is its command line."""

    text: str
    steps: tuple[OperatorStep, ...]


# --- from options -------------------------------------------------------------------------------------------


def read_plan(options: Sequence[tuple[str, str]], image: Image) -> Plan:
    """The plan of these options, each a name and a value, in order.

    Raises InputError for an unknown broker, topic, setting or directory, and for a file that cannot be read.
    """
    steps = [step for name, value in options for step in ACTIONS[name][2](value, image)]
    if not steps:
        raise InputError(f"no action: give one of {', '.join(f'--{name}' for name in ACTIONS)}")
    return Plan(" ".join(f"--{name} {value}".rstrip() for name, value in options), tuple(steps))


def _brokers(value: str, image: Image) -> list[int]:
    if value == "all":
        return sorted(image.brokers)
    found = []
    for part in value.split(","):
        if not re.fullmatch(r"[0-9]{1,9}", part) or int(part) not in image.brokers:
            raise InputError(
                f"there is no broker {part!r}; there are {', '.join(map(str, sorted(image.brokers)))}"
            )
        found.append(int(part))
    return found


def _each(kind: str, says: str, step_value: int = 0) -> Callable[[str, Image], Iterator[OperatorStep]]:
    def read(value: str, image: Image) -> Iterator[OperatorStep]:
        for broker in _brokers(value, image):
            yield OperatorStep(kind, says.format(broker), broker, step_value)

    return read


def _roll(value: str, image: Image) -> Iterator[OperatorStep]:
    for broker in _brokers(value, image):
        yield OperatorStep("STOP", f"restart broker {broker}", broker, RETURNS)
        yield OperatorStep("AWAIT_RETURN", f"wait until broker {broker} is back", broker)


def _set(value: str, image: Image) -> Iterator[OperatorStep]:
    setting, named, topic = value.partition(",topic=")
    name, _, given = setting.partition("=")
    if named and topic not in image.names:
        raise InputError(f"--set: there is no topic {topic!r}")
    where = f"{setting} for topic {topic}" if topic else f"{setting} for the cluster"
    if name == MIN_ISR and re.fullmatch(r"[1-9]|1[0-2]", given):
        yield OperatorStep("SET_MIN_ISR", where, value=int(given), topic=topic or None)
    elif name == UNCLEAN and given in ("true", "false"):
        yield OperatorStep("SET_UNCLEAN_ELECTION", where, value=int(given == "true"), topic=topic or None)
    else:
        allowed = f"{MIN_ISR}=1 to 12, {UNCLEAN}=true or false; then ,topic=NAME for one topic"
        raise InputError(f"--set {value}: expected {allowed}")


def _reassign(value: str, image: Image) -> Iterator[OperatorStep]:
    path = Path(value)
    try:
        if path.stat().st_size > 64 << 20:
            raise InputError(f"--reassign {path}: more than 64 MiB")
        listed = json.loads(path.read_text(encoding="utf-8"))["partitions"]
        targets = {f"{one['topic']}-{int(one['partition'])}": _target(one["replicas"]) for one in listed}
    except OSError as wrong:
        raise InputError(f"--reassign {path}: {wrong.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        form = '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        raise InputError(f"--reassign {path}: not the JSON of kafka-reassign-partitions: {form}") from None
    if not targets or len(targets) < len(listed):
        raise InputError(f"--reassign {path}: no partition, or one that is listed twice")
    known = {partition.name for partition in image.of_topics()}
    for name in targets:
        if name not in known:
            raise InputError(f"--reassign {path}: Kafka answers UNKNOWN_TOPIC_OR_PARTITION for {name}")
    yield OperatorStep(
        "REASSIGN",
        f"reassign {count(len(targets), 'partition')}",
        partitions=frozenset(targets),
        targets=targets,
    )


def _target(replicas: Any) -> tuple[int, ...]:
    if not isinstance(replicas, list) or not all(type(b) is int and b >= 0 for b in replicas):
        raise ValueError
    return tuple(replicas)


def _cancel(_: str, image: Image) -> Iterator[OperatorStep]:
    going = [p for p in image.of_topics() if p.belief.observed.adding or p.belief.observed.removing]
    if not going:
        raise InputError("--cancel-reassignments: Kafka answers NO_REASSIGNMENT_IN_PROGRESS")
    names = frozenset(p.name for p in going)
    yield OperatorStep("CANCEL_REASSIGNMENT", f"cancel {count(len(names), 'reassignment')}", partitions=names)


def _elect(value: str, image: Image) -> Iterator[OperatorStep]:
    kind, *names = value.split(",")
    if kind not in ("preferred", "unclean"):
        raise InputError(
            f"--elect {value}: expected preferred or unclean, then ,TOPIC-PARTITION for each of some"
        )
    for name in set(names) - {partition.name for partition in image.of_topics()}:
        raise InputError(f"--elect {value}: Kafka answers UNKNOWN_TOPIC_OR_PARTITION for {name}")
    yield OperatorStep(
        f"ELECT_{kind.upper()}", f"{kind} election", partitions=frozenset(names) if names else None
    )


def _feature(value: str, image: Image) -> Iterator[OperatorStep]:
    name, _, level = value.partition("=")
    if name != ELR_VERSION or level not in ("0", "1"):
        raise InputError(f"--feature {value}: expected {ELR_VERSION}=0 or {ELR_VERSION}=1")
    if image.features.get(ELR_VERSION, 0) == int(level):
        raise InputError(f"--feature {value}: the level is {level} already")
    yield OperatorStep("CHANGE_ELR_LEVEL", value, value=int(level))


def _remove_directory(value: str, image: Image) -> Iterator[OperatorStep]:
    broker, _, directory = value.partition(":")
    (number,) = _brokers(broker, image)[:1]
    known = image.brokers[number].directories
    if directory.startswith("/"):
        directory = _directory_id(Path(directory))
    if directory not in known:
        there_are = f"broker {number} has the directories {', '.join(known) or 'none'}, by their ids"
        raise InputError(
            f"--remove-directory {value}: {there_are}; a path must have its meta.properties here"
        )
    says = f"remove directory {directory} of broker {number}"
    yield OperatorStep("REMOVE_DIRECTORY", says, number, directory=directory)


def _directory_id(path: Path) -> str:
    """The id of a log directory by its meta.properties; "" if there is none here."""
    try:
        with (path / "meta.properties").open(encoding="utf-8") as file:
            found = re.search(r"^directory\.id=(\S+)", file.read(1 << 16), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return ""
    return "" if found is None else found[1]


ACTIONS: dict[str, tuple[str | None, str, Callable[[str, Image], Iterator[OperatorStep]]]] = {
    "restart": (
        "BROKER,…",
        "Stop brokers cleanly; they start again.",
        _each("STOP", "restart broker {}", RETURNS),
    ),
    "kill": ("BROKER,…", "Kill brokers; they start again.", _each("KILL", "kill broker {}")),
    "drain": (
        "BROKER,…",
        "Stop brokers cleanly; they stay away.",
        _each("STOP", "stop broker {}, which stays away", STAYS_AWAY),
    ),
    "roll": (
        "BROKER,…",
        "Restart brokers one after the other, each back before the next; all: every broker.",
        _roll,
    ),
    "set": (
        "NAME=VALUE",
        "Set min.insync.replicas or unclean.leader.election.enable; then ,topic=NAME for one topic.",
        _set,
    ),
    "reassign": ("FILE", "Reassign by the JSON of kafka-reassign-partitions.", _reassign),
    "cancel-reassignments": (None, "Cancel all reassignments.", _cancel),
    "elect": (
        "TYPE",
        "Request elections, preferred or unclean; then ,TOPIC-PARTITION for some only.",
        _elect,
    ),
    "feature": ("NAME=LEVEL", "Set eligible.leader.replicas.version to 0 or 1.", _feature),
    "unregister": (
        "BROKER,…",
        "Unregister brokers.",
        _each("UNREGISTER", "unregister broker {}"),
    ),
    "remove-directory": (
        "BROKER:DIR",
        "Remove a log directory, by its path or its id.",
        _remove_directory,
    ),
}
"""The actions of a plan by option: the form of the value (None: a flag), the help, and the function that reads it."""


# --- as a partition sees them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlotStep:
    """A step about one partition, with a slot instead of the broker."""

    kind: str
    broker: int = 0
    value: int = 0


@dataclass(frozen=True)
class OwnPlan:
    """The part of a plan that concerns one partition: its steps, and the slots to which it is reassigned.

    ``slots`` are the brokers of the partition's slots, with those that a reassignment adds at the end.
    """

    steps: tuple[SlotStep, ...]
    target: tuple[int, ...]
    slots: tuple[int, ...]

    def order(self, partition: Partition) -> tuple[int, ...]:
        """The order of a partition's own slots among these."""
        return tuple(self.slots.index(b) for b in partition.binding.brokers)


def own_plan(plan: Plan, partition: Partition, image: Image) -> OwnPlan:
    """The part of a plan that concerns a partition. Only a plan's last reassignment of a partition counts."""
    brokers = partition.binding.brokers
    target: tuple[int, ...] = ()
    for step in plan.steps:
        target = (step.targets or {}).get(partition.name, target)
    slots = brokers + tuple(dict.fromkeys(b for b in target if b not in brokers))
    if target:  # the order of removing replicas is that of their ids
        slots = tuple(sorted(slots))
    own = [found for step in plan.steps for found in _own(step, partition, image, slots)]
    return OwnPlan(tuple(own), tuple(slots.index(b) for b in target), slots)


def _own(
    step: OperatorStep, partition: Partition, image: Image, slots: tuple[int, ...]
) -> Iterator[SlotStep]:
    if step.partitions is not None and partition.name not in step.partitions:
        yield from _of_first(step, partition)
        return
    if step.broker is not None and step.broker not in slots:
        return
    if step.directory is not None and partition.directory(step.broker or 0) != step.directory:
        return
    value = step.value
    if step.kind in ("SET_MIN_ISR", "SET_UNCLEAN_ELECTION"):
        assert partition.topic is not None
        name = MIN_ISR if step.kind == "SET_MIN_ISR" else UNCLEAN
        own = image.configs.get((TOPIC, partition.topic.name), {}).get(name)
        if step.topic not in (None, partition.topic.name) or (step.topic and own == _written(step)):
            return
        if step.topic is None and own is not None:  # the topic's own value stays in force
            value = int(own) if step.kind == "SET_MIN_ISR" else int(own.strip().lower() == "true")
    yield SlotStep(step.kind, 0 if step.broker is None else slots.index(step.broker), value)


def _of_first(step: OperatorStep, partition: Partition) -> Iterator[SlotStep]:
    """The steps by which the reassignment of its topic's first partition concerns another partition (966.2)."""
    first = None if partition.topic is None else partition.topic.partitions.get(0)
    target = None if first is None else (step.targets or {}).get(first.name)
    if first is not None and target is not None and partition.number:
        sizes = len({*first.replicas, *target}), len(target)
        if sizes != (len(first.replicas),) * 2:
            yield from (SlotStep("FIRST_PARTITION", value=size) for size in dict.fromkeys(sizes))


def _written(step: OperatorStep) -> str:
    return str(step.value) if step.kind == "SET_MIN_ISR" else ("false", "true")[step.value]


# --- variants of a plan -----------------------------------------------------------------------------------------


def waiting(plan: Plan, brokers: Iterable[int], *, first: bool) -> Plan:
    """The plan with waits until brokers are in the ISR: before the first step, or after each return."""
    waits = {b: OperatorStep("AWAIT_ISR", f"wait until broker {b} is in the ISR", b) for b in brokers}
    if first:
        return replace(plan, steps=(*waits.values(), *plan.steps))
    steps: list[OperatorStep] = []
    for step in plan.steps:
        steps.append(step)
        if step.kind == "AWAIT_RETURN" and step.broker in waits:
            steps.append(waits[step.broker])
    return replace(plan, steps=tuple(steps))
