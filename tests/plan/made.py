"""Made clusters: a snapshot of a metadata log with brokers, settings and partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.command import Run, highwater
from tests.generation import records
from tests.traces.kafka.made import TOPIC_ID, snapshot

Partition = Mapping[str, Any]
BROKERS = (3, 5, 9)
DIRECTORY = "CAECAwQFBgcICQoLDA0ODw"
INCARNATION = "BAECAwQFBgcICQoLDA0ODw"
"""Brokers whose ids are not their numbers in the model."""


def healthy(**changed: Any) -> dict[str, Any]:
    """A partition of all brokers, all of them in the ISR."""
    return {"replicas": list(BROKERS), "isr": list(BROKERS), "leader": BROKERS[0], **changed}


def cluster(
    folder: Path,
    *partitions: Partition,
    min_isr: int = 2,
    unclean: str | None = "false",
    elr: int = 1,
    brokers: Sequence[int] = BROKERS,
    fenced: Sequence[int] = (),
    topic: str = "t",
    more: Sequence[bytes] = (),
) -> Path:
    """Write a snapshot into a folder, and return the folder."""
    values = [records.feature(records.METADATA, 29), records.feature(records.ELR, elr), *more]
    levels = records.supported({records.METADATA: (7, 29), records.ELR: (0, 1)})
    registered: dict[str, Any] = {"features": levels, "logDirs": [DIRECTORY]}
    values += [records.registration(b, b, INCARNATION, fenced=b in fenced, **registered) for b in brokers]
    values.append(records.setting(records.MIN_ISR, str(min_isr), "", records.OF_BROKER))
    values += [records.setting(records.UNCLEAN, unclean, "", records.OF_BROKER)] if unclean else []
    values.append(records.topic(topic, TOPIC_ID))
    for number, partition in enumerate(partitions):
        directories = [DIRECTORY] * len(partition["replicas"])
        data = {"directories": directories, **partition}
        values.append(records.partition(number, TOPIC_ID, partition["replicas"], 2, **data))
    folder.mkdir(exist_ok=True)
    (folder / "00000000000000000100-0000000001.checkpoint").write_bytes(snapshot(values))
    return folder


def plan(folder: Path, *options: object) -> tuple[Run, dict[str, Any]]:
    """Run the command with ``--json -``."""
    run = highwater("plan", folder, *options, "--json", "-")
    return run, run.results if run.status != 2 else {}


def counts(answer: Mapping[str, Any]) -> dict[str, list[int]]:
    """The outcomes that can happen: how many partitions with no fault, with one, and so on."""
    return {name: o["by_faults"] for name, o in answer["outcomes"].items() if any(o["by_faults"])}
