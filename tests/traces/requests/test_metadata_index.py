"""The metadata index that request logs are compared with: histories of partitions, epochs of leaders and brokers."""

from __future__ import annotations

from pathlib import Path

from highwater.traces.messages.metadata_index import MetadataIndex
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.observed import PartitionChange, PartitionState
from tests.generation.requests import registration
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import TOPICS, beginning, change, image, report_on, write

# --- limits on what the replay keeps and reports, and interruptions -----------------------------------


# --- the metadata index -------------------------------------------------------------------------------


ID, NEW_ID = "topic-id", "new-topic-id"


def state(epoch: int, partition_epoch: int, leader: int | None = 0) -> PartitionState:
    return PartitionState((0, 1), (0, 1), leader=leader, leader_epoch=epoch, partition_epoch=partition_epoch)


def followed(*changes: tuple[int, PartitionState | None, PartitionState | None]) -> MetadataIndex:
    """An index of changes of t-0: (offset, before, after). The change at offset n has time n s."""
    index = MetadataIndex()
    for position, before, after in changes:
        index.change(PartitionChange(position, 1000 * position, "t", 0, before, after))
    return index


def called(index: MetadataIndex, asked: str, position: int) -> None:
    """Give topic t the id ``asked`` from ``position`` on."""
    index.topics[asked] = "t", position


def places(index: MetadataIndex, asked: str) -> list[int]:
    history = index.history(asked, 0)
    return [] if history is None else [version.position for version in history.versions]


FIRST_STATE, SECOND = state(0, 0), state(0, 1)


def test_a_partition_that_was_there_before_the_log_begins_has_a_history() -> None:
    """The log has no creation record of the partition, so its history starts with the first change."""
    index = followed((5, FIRST_STATE, SECOND), (6, SECOND, state(1, 2)))
    called(index, ID, 0)
    assert places(index, ID) == [5, 6]


def test_a_partition_that_is_created_anew_has_a_history_of_its_own() -> None:
    """With and without its removal in the log, each topic id gets the history after its own creation."""
    for gone in ([(6, SECOND, None)], []):
        index = followed(
            (4, None, FIRST_STATE),
            (5, FIRST_STATE, SECOND),
            *gone,
            (8, None, FIRST_STATE),
            (9, FIRST_STATE, SECOND),
        )
        called(index, ID, 3)
        called(index, NEW_ID, 7)
        assert (places(index, ID), places(index, NEW_ID)) == ([4, 5], [8, 9])
        history = index.history(ID, 0)
        assert history is not None
        assert history.deleted == (6000 if gone else None)
    called(index, "later", 10)
    assert index.history("later", 0) is None


def test_the_topics_and_brokers_of_a_snapshot_are_there_before_the_first_offset(tmp_path: Path) -> None:
    (tmp_path / f"{20:020}-{1:010}.checkpoint").write_bytes(snapshot(image(beginning())))
    index = MetadataIndex()
    report_on(write(tmp_path, [change(0, isr=[0, 1])], 20), Watch([index.change], [], [index.record]))
    assert index.topics["t"] == index.topics[TOPICS["t"]] == ("t", -1)
    found = index.registration(0, 0)
    assert found is not None
    assert (found.position, found.fenced) == (-1, False)
    assert places(index, "t")[-1] == 20


def test_leader_epochs_are_looked_up() -> None:
    index = followed(
        (1, None, state(0, 0)),
        (2, FIRST_STATE, state(0, 1)),
        (3, SECOND, state(2, 2, 1)),
        (4, SECOND, state(3, 3, 0)),
    )
    called(index, ID, 0)
    history = index.history(ID, 0)
    assert history is not None
    assert [history.has_later(2, by) for by in (3999, 4000)] == [False, True]
    assert [history.led_by(0, by) for by in (999, 1000, 3999, 4000)] == [None, 0, 0, 3]
    assert history.led_by(2, 9999) is None
    assert [history.begun(by) for by in (999, 3000)] == [[], [0, 2]]


def test_broker_epochs_are_looked_up() -> None:
    index = MetadataIndex()
    for position, epoch in ((4, 4), (9, 9)):
        index.record(position, 1000 * position, "REGISTER_BROKER_RECORD", registration(1, epoch))
    assert index.epochs_of(1) == [4, 9]
    assert [index.registered(1, epoch) for epoch in (4, 5, 9)] == [4000, float("inf"), 9000]
    later = [index.registered_later(1, epoch) for epoch in (3, 4, 9)]
    assert [None if found is None else found.position for found in later] == [4, 9, None]
    assert [index.latest_epoch(1, by) for by in (3999, 4000, 9000)] == [-1, 4, 9]
    assert [index.starts_after(1, by) for by in (0, 4000, 9000)] == [4000, 9000, float("inf")]
