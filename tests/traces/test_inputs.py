"""The replay recognizes inputs by content and pairs broker logs with a metadata log; `highwater replay`."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.traces.inputs import (
    BROKER_LOG,
    METADATA_DUMP,
    METADATA_LOG,
    RUN,
    Input,
    inputs,
    kind_of,
)
from highwater.traces.kafka.values import encode, encode_control
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from tests.command import Run, highwater
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import CLUSTERS_4_2, dump_of, needs_clusters_4_2
from tests.traces.runs.made import bad_run, good_run, write

LOG_LINE = "[2026-11-20 11:53:45,758] INFO [Partition t1-0 broker=0] Log loaded (kafka.cluster.Partition)\n"
RUN_LINE = json.dumps({"meta": {"format": "highwater-trace-1"}}) + "\n"


def segment(directory: Path, time: int = 1000) -> Path:
    directory.mkdir(parents=True)
    key, value = encode_control(
        "LEADER_CHANGE", {"version": 0, "leaderId": 1, "voters": [], "grantingVoters": []}
    )
    level = {"name": "metadata.version", "featureLevel": 29}
    path = directory / "00000000000000000000.log"
    path.write_bytes(
        encode_batch(0, 1, time, [value], control=True, keys=[key])
        + encode_batch(1, 1, time, [encode("FEATURE_LEVEL_RECORD", 0, level)])
    )
    return path


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_kinds_by_content(tmp_path: Path) -> None:
    assert kind_of(segment(tmp_path / "log")) == METADATA_LOG
    assert kind_of(text(tmp_path / "a", LOG_LINE)) == BROKER_LOG
    assert kind_of(text(tmp_path / "b", RUN_LINE)) == RUN
    assert kind_of(write(tmp_path / "c", good_run())) == RUN
    (tmp_path / "d").write_bytes(gzip.compress((tmp_path / "c").read_bytes()))
    assert kind_of(tmp_path / "d") == RUN
    assert kind_of(text(tmp_path / "e", RUN_LINE[:-2])) == RUN, "its reader names the damage"
    for content in ("", "hello\n", "{}\n", "[1]\n", '{"meta": ', '{"meta": {}}\n', '{"a": 1}\n'):
        assert kind_of(text(tmp_path / "e", content)) is None


def test_a_directory_is_searched_and_unknown_files_are_skipped(tmp_path: Path) -> None:
    log = segment(tmp_path / "x" / "metadata")
    run = write(tmp_path / "x" / "run.ndjson", good_run())
    text(tmp_path / "x" / "notes.txt", "hello\n")
    (tmp_path / "x" / "bootstrap.checkpoint").write_bytes(log.read_bytes())  # as in every data directory
    found = inputs([tmp_path])
    assert found.found == [Input(run, RUN), Input(log.parent, METADATA_LOG)]
    assert found.passed_over == [tmp_path / "x" / "notes.txt"]
    (line,) = found.skipped
    assert line.startswith(
        f"not read: 1 file of no known kind: {tmp_path / 'x' / 'notes.txt'}. The first begins with 'hello'"
    )


def test_links_to_directories_are_followed_once(tmp_path: Path) -> None:
    below, outside = tmp_path / "x" / "logs", tmp_path / "outside" / "metadata"
    segment(outside)
    run = write(text(below / "notes.txt", "hello\n").with_name("run.ndjson"), good_run())
    (below / "again").symlink_to(below)
    (below / "up").symlink_to(tmp_path)
    (below.parent / "a").symlink_to(below)
    (below.parent / "b").symlink_to(outside)
    found = inputs([below.parent])
    assert found.found == [Input(run, RUN), Input(below.parent / "b", METADATA_LOG)]
    assert found.passed_over == [below / "notes.txt"]
    assert inputs([below.parent / "b"]).found == [Input(below.parent / "b", METADATA_LOG)]


def test_broker_logs_go_with_the_nearest_metadata_log(tmp_path: Path) -> None:
    for cluster in ("a", "b"):
        segment(tmp_path / cluster / "metadata", ord(cluster))
        text(tmp_path / cluster / "logs" / "node0" / "server.log", LOG_LINE)
    found = inputs([tmp_path]).found
    assert [i.broker_logs for i in found] == [
        (tmp_path / cluster / "logs" / "node0" / "server.log",) for cluster in ("a", "b")
    ]


def test_the_copies_of_a_clusters_log_are_one_input(tmp_path: Path) -> None:
    """As in a support bundle: a copy of the log a node, each with its broker's logs. The longest is replayed."""
    for node in range(3):
        log = segment(tmp_path / f"node{node}" / "__cluster_metadata-0")
        text(tmp_path / f"node{node}" / "server.log", LOG_LINE)
    with log.open("ab") as file:
        file.write(encode_batch(2, 1, 1000, [encode("NO_OP_RECORD", 0, {})]))
    other = segment(tmp_path / "other" / "__cluster_metadata-0", 7).parent
    first, second = sorted(inputs([tmp_path]).found, key=lambda i: str(i.path))
    assert first.path == log.parent
    assert first.copies == tuple(tmp_path / f"node{n}" / "__cluster_metadata-0" for n in range(2))
    assert len(first.broker_logs) == 3
    assert (second.path, second.copies, second.broker_logs) == (other, (), ())
    assert replay(tmp_path / "node2", broker_logs=[tmp_path / "node0"]).records == 3


def test_logs_of_a_cluster_with_zookeeper_cannot_be_replayed(tmp_path: Path) -> None:
    line = "[2026-11-20 11:58:05,144] INFO [Controller id=0] Starting (kafka.controller.KafkaController)\n"
    with pytest.raises(TraceError, match="a cluster with ZooKeeper, which has no metadata log"):
        inputs([text(tmp_path / "controller.log", line)])


def test_logs_that_are_cut_off_are_skipped(tmp_path: Path) -> None:
    segment(tmp_path / "metadata")
    whole = gzip.compress(LOG_LINE.encode())
    (tmp_path / "server.log.gz").write_bytes(whole)
    (tmp_path / "server.log.1.gz").write_bytes(whole[:-4])
    report = replay(tmp_path)
    (doubt,) = report.doubts
    assert (doubt.kind, doubt.partitions) == ("damaged file", ())
    assert doubt.summary == f"skipped {tmp_path / 'server.log.1.gz'}: the compressed file is cut off"
    assert report.figures["broker logs"] == 1


def test_a_log_and_its_dump_are_one_input(tmp_path: Path) -> None:
    log = segment(tmp_path / "__cluster_metadata-0")
    dump = text(tmp_path / "dump.txt", dump_of(log.read_bytes()))
    zipped = tmp_path / "dump.txt.gz"
    zipped.write_bytes(gzip.compress(dump.read_bytes()))
    expected = [Input(log.parent, METADATA_LOG, (), (tmp_path,))]
    assert inputs([tmp_path]).found == expected
    assert inputs([log.parent, dump]).found == [replace(expected[0], dumps=(dump,))]
    assert inputs([dump, log]).found == [Input(log, METADATA_LOG, (), (dump,))]
    assert inputs([dump, zipped]).found == [Input(dump, METADATA_DUMP), Input(zipped, METADATA_DUMP)]
    assert replay(tmp_path).notes == [f"{tmp_path}: skipped: a dump of this metadata log"]
    assert inputs([dump]).found == [Input(dump, METADATA_DUMP)], "alone it is replayed"


def test_a_dump_of_another_log_or_of_more_is_an_input_of_its_own(tmp_path: Path) -> None:
    log = segment(tmp_path / "__cluster_metadata-0")
    more = encode_batch(2, 1, 2000, [encode("NO_OP_RECORD", 0, {})])
    longer = text(tmp_path / "longer.txt", dump_of(log.read_bytes() + more))
    assert [i.path for i in inputs([log, longer]).found] == [log, longer]
    other = text(tmp_path / "other.txt", dump_of(log.read_bytes()).replace("crc: ", "crc: 1"))
    assert [i.path for i in inputs([log, other]).found] == [log, other]
    log.write_bytes(log.read_bytes() + more)
    shorter = text(tmp_path / "shorter.txt", dump_of(log.read_bytes()[: -len(more)]))
    assert [i.path for i in inputs([log, longer, shorter]).found] == [log], "what the log has already"


def test_paths_with_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        replay(tmp_path / "nowhere")
    with pytest.raises(TraceError, match="nothing that can be replayed"):
        replay(tmp_path)
    with pytest.raises(TraceError, match="alone cannot be replayed"):
        replay(text(tmp_path / "server.log", LOG_LINE))
    write(tmp_path / "1.ndjson", good_run())
    write(tmp_path / "2.ndjson", good_run())
    (tmp_path / "server.log").unlink()
    with pytest.raises(TraceError, match="2 inputs, where one is expected"):
        replay(tmp_path)


def test_brokers_logs_beside_a_run_of_the_model_are_skipped(tmp_path: Path) -> None:
    broker = "[2026-11-21 10:00:00,160] DEBUG [Partition t-0 broker=0] High watermark updated to 5 "
    broker += "(kafka.cluster.Partition)\n"
    for node in ("node0", "node1"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "server.log").write_text(broker, encoding="utf-8")
    text(tmp_path / "run.ndjson", RUN_LINE)
    found = inputs([tmp_path])
    assert [i.kind for i in found.found] == [RUN]
    (line,) = found.skipped
    assert line.startswith("skipped 2 brokers' logs: name the cluster's metadata log, too")
    with pytest.raises(
        TraceError, match="a broker's log alone cannot be replayed: name the cluster's metadata log"
    ):
        inputs([tmp_path / "node0" / "server.log"])


# --- the command --------------------------------------------------------------------------------------


def run(*arguments: object) -> Run:
    return highwater("replay", *arguments)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good.ndjson", good_run())


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write(tmp_path / "bad.ndjson", bad_run())


def test_a_run_that_conforms(good: Path) -> None:
    result = run(good)
    assert result.status == 0
    assert result.output.startswith("No problem found: every operation conforms to ")
    assert f"  input: {good}\n" in result.output
    assert "1 input, 12 records: no problem found" in result.output


def test_a_step_that_does_not_conform(good: Path, bad: Path) -> None:
    result = run(good, bad)
    assert result.status == 1
    assert "nearest: follower_fetch(follower=2, leader=1)" in result.output
    assert "next_record_id: expected 2, recorded 0" in result.output


@pytest.mark.parametrize("kept", [-30, 100, 5])
def test_a_compressed_file_that_is_cut_off_is_skipped(
    good: Path, bad: Path, tmp_path: Path, kept: int
) -> None:
    """Replay continues with the other inputs."""
    cut = tmp_path / "a-cut.gz"
    cut.write_bytes(gzip.compress(good.read_bytes())[:kept])
    result = run(cut, good)
    assert result.status == 3
    assert f"  input: {good}\n" in result.out
    assert result.err == f"highwater: skipped {cut}: the compressed file is cut off\n"
    assert run(cut, good, bad).status == 1


def test_rules_and_profile_can_be_switched(good: Path) -> None:
    assert run(good, "--rule", "fenced_shrink=on").status == 0
    assert run(good, "--profile", "kip_320").status == 1
    assert run(good, "--profile", "kip_279").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: there is no such file or directory"),
        (["{good}", "--rule", "gravity=on"], "unknown rule of truncation 'gravity'"),
        (["{good}", "--rule", "fenced_fetch"], "write NAME=on or NAME=off"),
        (["{good}", "--profile", "kafka_9"], "unknown profile of truncation 'kafka_9'"),
        (["{good}", "--json", "/nowhere/out.json"], "cannot be written"),
        (["{cut}"], "cut.gz: the compressed file is cut off"),
        (["{text}"], "text: not a file that replay reads"),
        ([], "Missing argument"),
    ],
)
def test_bad_requests_are_one_line(good: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(good.read_bytes())[:-30])
    (tmp_path / "text").write_text("hello \x1b[31m\n")
    names = {"good": good, "cut": tmp_path / "cut.gz", "text": tmp_path / "text"}
    result = run(*(a.format(**names) for a in arguments))
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.output
    assert len(result.err.strip().splitlines()) == 1


@needs_clusters_4_2
def test_recorded_clusters_are_replayed_by_one_command(tmp_path: Path) -> None:
    page, target = tmp_path / "page.html", tmp_path / "result.json"
    result = run(
        CLUSTERS_4_2 / "deadleader-elr",
        CLUSTERS_4_2 / "restarts-elr",
        "--html",
        page,
        "--json",
        target,
        "--quiet",
    )
    assert result.status in (0, 1)
    reports = json.loads(target.read_text())
    assert len(reports) == 2, "a log and its dumps are one input"
    assert all("skipped: a dump of this metadata log" in r["notes"][0] for r in reports)
    assert all(r["unexplained_count"] == 0 and r["figures"]["broker logs"] for r in reports)
    assert not any(r["doubts"] or r["damage"] or r["unreliable_count"] for r in reports)
    assert page.stat().st_size > 100_000
