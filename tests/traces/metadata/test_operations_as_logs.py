"""The 14,155 recorded operations of a 4.2.1 controller, replayed as metadata logs: nothing but records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import recordings
from tests.slow import slow
from tests.traces.metadata.accounts import shared
from tests.traces.metadata.operations_as_log import Operations, Record, replayed

RECORDED = recordings.folder("traces/kafka-4.2/controller")
MODES = ("elr-on", "elr-off", "elr-on-extras")
UNLISTED = "AAAAAAAAAAAAAAAAAAAACw"

pytestmark = recordings.needs("traces/kafka-4.2/controller")


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with shared():
        yield


def files(mode: str) -> list[Path]:
    return sorted((RECORDED / mode).glob("*.ndjson.gz"))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=slow("every file; each fourth is fast"))])
@pytest.mark.parametrize("mode", MODES)
def test_as_logs(mode: str, every: int, tmp_path: Path) -> None:
    """Everything is explained but an ISR that is asked for with the members that it has, in another order."""
    found: Counter[str] = Counter()
    for number, path in enumerate(files(mode)[::every]):
        recorded = Operations.read(path)
        report, causes = replayed(recorded.write(tmp_path / str(number)))
        assert report.doubts == []
        found.update(cause or "nothing" for cause in causes.values())
        for line in report.unexplained:
            operation, record = recorded.record(int(line.position["offset"]))
            assert (operation["name"], operation["kind"]) == ("alterPartition", "no-op"), (path, line)
            assert set(record["data"]) == {"partitionId", "topicId", "isr"}
    nothing = {"elr-on": 3, "elr-off": 4, "elr-on-extras": 0}[mode]
    assigned = 62 if mode == "elr-on-extras" else 0
    if every == 1:
        assert (found["nothing"], found["assign_directory"]) == (nothing, assigned)
    else:
        assert found["nothing"] <= nothing
        assert bool(found["assign_directory"]) == bool(assigned)


def _of_directories(recorded: Operations, causes: dict[int, str | None]) -> Iterator[tuple[str, int, Record]]:
    """Records about log directories, each with one field changed, and what was changed."""
    brokers = range(recorded.meta["brokers"])
    listed: dict[int, list[str]] = {}
    for line in recorded.lines:
        for number, record in enumerate(line["records"]):
            data, offset = record["data"], line["nextOffset"] + number

            def other(
                what: str, record: Record = record, offset: int = offset, **fields: Any
            ) -> tuple[str, int, Record]:
                data = {name: value for name, value in (record["data"] | fields).items() if value is not None}
                return what, offset, {**record, "data": data}

            if data.get("logDirs") and record["type"] == "BROKER_REGISTRATION_CHANGE_RECORD":
                yield other("another broker", brokerId=(data["brokerId"] + 1) % len(brokers))
                yield other("a directory that it never had", logDirs=[UNLISTED])
                yield other("none is lost", logDirs=listed[data["brokerId"]])
            if data.get("logDirs"):
                listed[data["brokerId"]] = data["logDirs"]
            if causes.get(offset) == "assign_directory":
                yield from (other("leader", leader=b) for b in (-1, *brokers) if b != data.get("leader"))
                for broker in brokers if "isr" in data else ():
                    yield other("isr", isr=sorted({*data["isr"]} ^ {broker}))
                yield other("lastKnownElr", lastKnownElr=None if data.get("lastKnownElr") else [0])
            if data.get("directories") and record["type"] == "PARTITION_CHANGE_RECORD" and "replicas" in data:
                for place in range(len(data["directories"])):
                    where = list(data["directories"])
                    where[place] = UNLISTED
                    yield other("directory of a replica", directories=where)
                yield other("directories", directories=None)


def test_what_is_said_of_directories_is_looked_at(tmp_path: Path) -> None:
    """In each record one field is changed: none goes unnoticed."""
    noticed: Counter[str] = Counter()
    for path in (files("elr-on-extras")[number] for number in (0, 11, 32)):
        recorded = Operations.read(path)
        _, causes = replayed(recorded.write(tmp_path / path.name))
        for number, (what, offset, record) in enumerate(_of_directories(recorded, causes)):
            folder = recorded.write(tmp_path / path.name / str(number), {offset: record})
            report, _ = replayed(folder)
            assert report.unexplained or report.doubts, (path, what, record)
            noticed[what] += 1
    assert len(noticed) == 8
