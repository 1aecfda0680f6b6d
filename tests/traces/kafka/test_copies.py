"""Copies of one cluster's metadata log: which logs are copies, and the log that they give together."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.inputs import inputs
from highwater.traces.kafka.copies import Copies, copies, open_copies
from highwater.traces.kafka.metadata_log import Gap
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from tests.traces.kafka.made import change, segment, snapshot
from tests.traces.kafka.test_metadata_log import log_name, offsets, snapshot_name, write
from tests.traces.metadata.made_logs import beginning
from tests.traces.metadata.made_logs import write as write_log

FIRST, SECOND, THIRD = segment(), segment(base=8, epoch=2), segment(base=16, epoch=3)
"""The batches of offsets 0 to 7, 8 to 15 and 16 to 23, each of a leader epoch of its own."""
WHOLE = {log_name(0): b"".join(FIRST), log_name(8): b"".join(SECOND), log_name(16): b"".join(THIRD)}


def copy(folder: Path, node: int, files: dict[str, bytes], cluster: str | None = None) -> Path:
    """A copy of a metadata log in the data directory of a node."""
    log = folder / f"node{node}" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    if cluster is not None:
        (log.parent / "meta.properties").write_text(f"#\nversion=1\ncluster.id={cluster}\nnode.id={node}\n")
    return write(log, files)


def only(*starts: int) -> dict[str, bytes]:
    return {log_name(start): WHOLE[log_name(start)] for start in starts}


@pytest.mark.parametrize(
    ("first", "second", "lacks"),
    [
        (only(0, 16), only(0, 8, 16), 8),
        (only(0, 16), only(8, 16), 8),
        (only(16), only(0, 8, 16), 0),
        (only(0, 8, 16) | {log_name(8): b"".join(SECOND[:2])}, only(8, 16), 10),
        # Damage: the records of the second batch of a segment do not fit its checksum.
        (
            only(0, 8, 16) | {log_name(8): SECOND[0] + SECOND[1][:-1] + b"\xff" + b"".join(SECOND[2:])},
            only(8, 16),
            9,
        ),
    ],
)
def test_what_one_copy_lacks_another_gives(
    tmp_path: Path, first: dict[str, bytes], second: dict[str, bytes], lacks: int
) -> None:
    one, two = copy(tmp_path, 1, first, "c"), copy(tmp_path, 2, second, "c")
    log = open_copies(one, [two])
    assert offsets(log) == list(range(24))
    (note,) = log.notes
    assert note.startswith(f"{two}: replay continues in this copy at offset {lacks}")
    assert ("checksum" in note) == (lacks == 9)


def test_a_gap_that_no_copy_fills_stays_a_gap(tmp_path: Path) -> None:
    late = {log_name(8): b"".join(SECOND[1:]), **only(16)}
    one, two = copy(tmp_path, 1, only(0, 16)), copy(tmp_path, 2, late)
    assert offsets(open_copies(one, [two])) == [
        *range(8), Gap(two / log_name(8), 0, 8, 9), *range(9, 24)
    ]  # fmt: skip


def test_a_copy_of_an_earlier_leader_epoch_fills_no_gap(tmp_path: Path) -> None:
    """Its last records may never have been committed: another leader wrote what belongs there."""
    one, two = copy(tmp_path, 1, only(0, 16)), copy(tmp_path, 2, only(0, 8))
    assert offsets(open_copies(one, [two])) == [*range(8), Gap(one / log_name(16), 0, 8, 16), *range(16, 24)]


def test_a_damaged_log_without_another_copy_of_the_rest_is_an_error(tmp_path: Path) -> None:
    damaged = only(0, 8) | {log_name(8): SECOND[0][:-1] + b"\xff" + b"".join(SECOND[1:])}
    one, two = copy(tmp_path, 1, damaged), copy(tmp_path, 2, only(0))
    with pytest.raises(TraceError, match="checksum"):
        offsets(open_copies(one, [two]))
    # The copy has records behind the damage, but not the segment that follows.
    one, two = copy(tmp_path / "b", 1, damaged | only(16)), copy(tmp_path / "b", 2, only(8))
    with pytest.raises(TraceError, match="checksum"):
        offsets(open_copies(one, [two]))


def test_the_earliest_start_counts(tmp_path: Path) -> None:
    """One copy begins with a snapshot, the other one has the records before it. So the history is whole."""
    late = only(8, 16) | {snapshot_name(8): snapshot([change(1)])}
    one, two = copy(tmp_path, 1, late), copy(tmp_path, 2, only(0, 8))
    log = open_copies(one, [two])
    assert (log.start, offsets(log)) == (None, list(range(24)))
    # It must reach the snapshot. Otherwise records would be missing between the two.
    late = only(16) | {snapshot_name(16): snapshot([change(1)])}
    one, two = copy(tmp_path / "b", 1, late), copy(tmp_path / "b", 2, only(0))
    log = open_copies(one, [two])
    assert log.start is not None
    assert offsets(log) == list(range(16, 24))


def test_copies_are_known_by_the_cluster_or_by_a_batch(tmp_path: Path) -> None:
    longest, short = copy(tmp_path, 1, only(0, 8)), copy(tmp_path, 2, only(0))
    apart = copy(tmp_path, 3, only(16), "c")
    same, other = copy(tmp_path, 4, only(8), "c"), copy(tmp_path, 5, only(16), "d")
    assert copies([short, longest]) == [Copies((longest, short))]
    assert copies([short, apart]) == [Copies((short,)), Copies((apart,))]
    assert copies([same, apart]) == [Copies((apart, same))], "no batch in common, but one cluster"
    assert copies([apart, other]) == [Copies((apart,)), Copies((other,))], "two clusters, whatever they share"


def test_the_copy_of_the_latest_leader_epoch_comes_first(tmp_path: Path) -> None:
    """A longer log of an earlier leader epoch has records that were never committed."""
    stale = b"".join(segment((1, 3, 1, 2, 5, 5, 5)))
    long, late = copy(tmp_path, 1, {log_name(0): stale}), copy(tmp_path, 2, only(0, 8))
    (found,) = copies([long, late])
    assert found == Copies((late, long))


def test_two_copies_that_differ_in_committed_records_are_a_caveat(tmp_path: Path) -> None:
    values = beginning()
    one = write_log(tmp_path / "node1" / "__cluster_metadata-0", values)
    two = write_log(tmp_path / "node2" / "__cluster_metadata-0", [*values[:5], values[4], *values[6:]])
    (found,) = inputs([tmp_path]).found
    assert (found.path, found.copies, found.conflicts) == (one, (two,), ((one, two, 5),))
    (doubt,) = [doubt for doubt in replay(tmp_path).doubts if doubt.kind == "copies differ"]
    assert doubt.position == {"offset": 5}
