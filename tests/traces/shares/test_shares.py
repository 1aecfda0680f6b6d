"""Replaying a log in shares gives the report of the whole log."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.traces.kafka.metadata_log import PARTITION, open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.shares import ShareFollower, ShareResult, Unreadable, replay_shares
from highwater.traces.metadata.sharing import Share, Stretch
from highwater.traces.reading import TraceError
from highwater.traces.reports.report import Report
from tests.generation import records as generated
from tests.generation import write_log
from tests.generation.batches import encode_batch
from tests.slow import all_but, slow
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.accounts import shared
from tests.traces.metadata.made_logs import (
    beginning,
    change,
    clear,
    feature,
    flip,
    loss,
    partition,
    registration_change,
    setting,
    together,
    with_version,
    write,
)
from tests.traces.metadata.mutations import Log, fields, read, whole_records
from tests.traces.metadata.test_any_log import records, whole

WORK = ("beliefs", "steps explained")
"""Figures that count work, which each share does separately."""
SHARES = (2, 7)


def plain(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(report.to_json()))
    found["seconds"] = 0
    found["figures"] = {name: value for name, value in found["figures"].items() if name not in WORK}
    return found


def embedded(path: Path, **rules: Any) -> dict[str, Any] | str:
    log = open_metadata_log(path)
    report = Report(str(log.path), log.kind, "")
    try:
        replay_metadata(log, report, **rules)
    except TraceError as wrong:
        return str(wrong)
    return plain(report)


def until_damage(expected: dict[str, Any] | str) -> dict[str, Any] | str:
    """The result expected of shares: for a damaged log, only the error message."""
    if isinstance(expected, str) or not expected["damage"]:
        return expected
    message: str = expected["damage"][0]["message"]
    return message


def divided(path: Path, count: int, **rules: Any) -> tuple[dict[str, Any] | str, int]:
    """The report of ``count`` shares, replayed one after the other, and the number of passes."""
    passes = 0

    def run(ends: Mapping[Stretch, int]) -> list[ShareResult]:
        nonlocal passes
        passes += 1
        shares = [Share(number, count, dict(ends)) for number in range(count)]
        found = [ShareFollower(open_metadata_log(path), share, **rules).replay() for share in shares]
        travelled: list[ShareResult] = pickle.loads(pickle.dumps(found))
        return travelled

    try:
        return plain(replay_shares(open_metadata_log(path), run)[0]), passes
    except Unreadable as wrong:
        return str(wrong), passes


@pytest.fixture(autouse=True, scope="module")
def _fast() -> Iterator[None]:
    with shared():
        yield


def check_same(path: Path, counts: Sequence[int] = SHARES, **rules: Any) -> dict[str, Any]:
    """Compare the report of the whole log, which it returns, with that of each number of shares."""
    expected = embedded(path, **rules)
    assert isinstance(expected, dict)
    for count in counts:
        assert divided(path, count, **rules)[0] == expected
    return expected


QUICK = ("down-elr-hard-120", "minisr-broker-elr", "reassigns-elr", "restarts-noelr")
EVERY = all_but(QUICK, NAMES_4_2, "the other recorded clusters; the fast ones have a change of each kind")


@needs_clusters_4_2
@pytest.mark.parametrize("name", EVERY)
def test_recorded_clusters(name: str) -> None:
    check_same(CLUSTERS_4_2 / name / PARTITION)
    if name == "minisr-broker-elr":
        check_same(CLUSTERS_4_2 / name / PARTITION, switched={"min_isr_change_clears_elr": False})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_log(folder, partitions=30, records=900, brokers=5, segment_bytes=20_000, snapshot_every=350, seed=3)
    return folder


def test_a_made_log(made: Path) -> None:
    expected = check_same(made)
    assert expected["figures"]["snapshots compared"] >= 2
    assert sum(expected["findings_count"].values()) > 0


def test_a_log_that_begins_with_a_snapshot(made: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted(made.glob("*.checkpoint"))
    begun = [f for f in sorted(made.glob("*.log")) if f.stem <= first.name[:20]]
    for file in (first, second, *(f for f in sorted(made.glob("*.log")) if f not in begun[:-1])):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert any("begins with the snapshot" in note for note in check_same(tmp_path)["notes"])


def changed(log: Log, random: Random) -> Log:
    for _ in range(4):
        mutations = fields(log) if random.random() < 0.7 else whole_records(log)
        log = next(islice(mutations, random.randrange(3000), None)).make()
    return log


@pytest.mark.parametrize(
    "seed", [35, pytest.param(range(12), marks=slow("12 more logs; the fast test has one"))]
)
def test_changed_logs(made: Path, tmp_path: Path, seed: int | range) -> None:
    original = read(made).without_snapshots()
    for number in seed if isinstance(seed, range) else [seed]:
        folder = changed(original, Random(number)).write(tmp_path / str(number))
        expected = embedded(folder)
        assert isinstance(expected, str) or expected["unexplained_count"] > 0
        for count in SHARES:
            found, passes = divided(folder, count)
            assert found == expected
            # In the log of seed 35, a change in another share interrupts a decision.
            assert passes == 2 or seed != 35 or count < 7


BROKERS = [7, 8, 9]


def log_of(folder: Path, batches: Sequence[Sequence[bytes]]) -> Path:
    data, offset = b"", 0
    for values in batches:
        data += encode_batch(offset, 1, 1000 + offset, values)
        offset += len(values)
    (folder / f"{0:020}.log").write_bytes(data)
    return folder


def topic_id(topic: int) -> str:
    return "AAAAAAAAAAAAAAAAAAAA" + "ABCDEFGHIJKLMNOP"[topic] + "w"


def creation(topic: int, number: int = 0) -> tuple[bytes, bytes]:
    identity = topic_id(topic)
    return generated.topic(f"t{topic}", identity), generated.partition(number, identity, BROKERS)


def test_partition_changes_after_a_registration_in_another_share(tmp_path: Path) -> None:
    """A registration's decision can begin with partition changes of any share."""
    batches: list[list[bytes]] = [[value for topic in range(6) for value in creation(topic)]]
    offset = len(batches[0])
    for topic in range(6):
        changed = {"partitionId": 0, "topicId": topic_id(topic)}
        smaller, smallest = (
            whole("PARTITION_CHANGE_RECORD", 0, changed | {"isr": isr}) for isr in ([7, 8], [7])
        )
        registered = generated.registration(topic, offset + 2, topic_id(9))
        batches.append([smaller, creation(10 + topic)[0], smallest, registered])
        offset += 4
    log = log_of(tmp_path, batches)
    unexplained = check_same(log)["unexplained"]
    epochs = [u for u in unexplained if "brokerEpoch" in u["candidates"][0]["differences"]]
    assert not [u for u in epochs if u["partition"] is None]


def test_a_transaction_is_not_cut(tmp_path: Path) -> None:
    begin, end = together()
    created = [value for topic in range(8) for value in creation(topic)]
    log = log_of(tmp_path, [[begin], created[:5], created[5:9], created[9:], [end], [*creation(9)]])
    assert check_same(log, [3])["partitions"] == 9


def test_a_log_that_ends_within_a_transaction(tmp_path: Path) -> None:
    begin, _ = together()
    log = log_of(tmp_path, [[*creation(0)], [begin, *creation(1)], [*creation(2)]])
    notes = check_same(log, [3])["notes"]
    assert any("within a metadata transaction of 4 records" in note for note in notes)


@pytest.mark.parametrize("at", [2_000, -30], ids=["in the middle", "last batch"])
def test_a_damaged_log_is_the_same_error(made: Path, tmp_path: Path, at: int) -> None:
    for file in made.glob("*.log"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damaged = sorted(tmp_path.glob("*.log"))[1]
    flip(damaged, at)
    expected = embedded(tmp_path)
    # A single process reports everything up to the damage; shares report only the damage.
    for count in SHARES:
        assert divided(tmp_path, count)[0] == until_damage(expected)


def test_a_torn_end_is_the_same_note(made: Path, tmp_path: Path) -> None:
    for file in made.glob("*.log"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    last = sorted(tmp_path.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-20])
    assert any("ends within a batch" in note for note in check_same(tmp_path)["notes"])


def test_a_leader_epoch_that_falls_from_one_range_to_the_next(tmp_path: Path) -> None:
    batches = [encode_batch(2 * n, epoch, 1000, creation(n)) for n, epoch in enumerate((3, 3, 2, 2))]
    (tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    expected = until_damage(embedded(tmp_path))
    assert isinstance(expected, str)
    for count in SHARES:
        assert divided(tmp_path, count)[0] == expected


@pytest.mark.parametrize(
    "values",
    [
        [with_version(setting("min.insync.replicas", "1"), 9), *loss(), *loss("u")],
        [with_version(change(0, isr=[0]), 3), *loss(), *loss("u")],
        [with_version(partition(1), 3), change(1, isr=[0]), *loss("u")],
        [with_version(partition(1, "u"), 3), change(1, "u", isr=[0]), *loss("u")],
        [*loss(), feature("metadata.version", 30), *loss("u")],
        [
            change(0, isr=[0, 1]),
            change(0, isr=[0], eligibleLeaderReplicas=[1]),
            clear(""),
            *loss("u"),
            *loss(),
        ],
        [change(0, leader=-7), change(0, "u", leaderRecoveryState=7), *loss("u")],
        [registration_change(0, 1, fenced=5), partition(1, leader=-9), *loss("u")],
    ],
)
def test_doubts_are_those_of_the_whole_log(tmp_path: Path, values: list[bytes]) -> None:
    """Caveats, marks and counts equal those of the whole log, whichever share meets them."""
    for base, folder in ((0, tmp_path / "whole"), (20, tmp_path / "without its beginning")):
        log = write(folder, [*beginning(), *values], base)
        assert check_same(log)["doubts"]


_NOT_FOLLOWED = {
    "partitionId": 0, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "replicas": [], "isr": [], "removingReplicas": [],
    "addingReplicas": [], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0, "leaderRecoveryState": 2,
}  # fmt: skip
FEATURES_CHANGE_LAST = [
    ("PARTITION_RECORD", 0, _NOT_FOLLOWED),
    ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 0}),
    ("PARTITION_RECORD", 0, _NOT_FOLLOWED),
]


@given(st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=6), st.integers(2, 5))
@example([FEATURES_CHANGE_LAST], 2)
@settings(max_examples=15, deadline=None)
def test_any_records(batches: list[list[Any]], count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = log_of(Path(folder), [[whole(*record) for record in batch] for batch in batches])
        assert divided(log, count)[0] == embedded(log)
