"""The recorded clusters' request logs conform and break no promise; clocks that differ by seconds."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from highwater.traces.messages.context import Clocks
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.report import Report
from tests.slow import often, slow
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2

EXPLAINED = {
    "send_fetch": (1894, 2743, 3409, 531),
    "answer_fetch": (1884, 2737, 3398, 531),
    "refuse_fetch": (10, 7, 12, 0),
    "acknowledge": (1434, 1285, 1911, 339),
    "propose_expand or propose_shrink": (22, 36, 34, 8),
    "handle_alter_partition": (27, 37, 36, 8),
    "start_broker": (10, 6, 12, 7),
}
"""By action: the number of messages that it explains in each recording of NAMES."""
NAMES = ("requests-elr", "mixed-requests-elr-4", "mixed-requests-elr-6", "unclean-requests-elr")


def log_of(name: str, node: str) -> Path:
    return CLUSTERS_4_2 / name / "logs" / node / "kafka-request.log.gz"


def lines_of(log: Path) -> list[bytes]:
    return gzip.decompress(log.read_bytes()).splitlines(keepends=True)


def put(path: Path, lines: list[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def conforming(name: str, logs: Sequence[Path]) -> Report:
    """The replay of request logs of a recording, which conform and break no promise about messages."""
    report = replay(CLUSTERS_4_2 / name / "__cluster_metadata-0", broker_logs=list(logs))
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert [f for f in report.findings if "line" in f.position] == []
    return report


def all_logs(name: str) -> list[Path]:
    return sorted((CLUSTERS_4_2 / name).glob("logs/*/kafka-request.log.gz"))


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_explained_and_little_is_guessed(name: str) -> None:
    """These clusters lost records by elections only. The replay guesses fewer than 1 % as many as it explains."""
    figures = conforming(name, all_logs(name)).figures
    counts = {action: counts[NAMES.index(name)] for action, counts in EXPLAINED.items()}
    assert {action: figures.get(f"messages explained: {action}", 0) for action in EXPLAINED} == counts
    assert figures["messages guessed"] < figures["messages explained"] / 100


def test_logs_of_some_nodes_are_enough() -> None:
    """A broker's log conforms without the controller's; the replay guesses what is missing."""
    figures = conforming("mixed-requests-elr-4", [log_of("mixed-requests-elr-4", "node0")]).figures
    assert figures["messages explained: answer_fetch"] > 1000
    assert figures.get("messages explained: handle_alter_partition", 0) == 0


def test_a_copy_of_a_log_is_read_once(tmp_path: Path) -> None:
    """Of a rotated log the input can have an older, shorter copy, or the same lines plain and compressed."""
    logs = all_logs("unclean-requests-elr")
    lines = lines_of(logs[0])
    plain = put(tmp_path / "node0" / "plain.log", lines)
    older = put(tmp_path / "node0" / "older.log", lines[: len(lines) // 2])
    report = conforming("unclean-requests-elr", [older, *logs, plain])
    assert sum("has the same lines" in note for note in report.notes) == 2
    assert report.figures["request log lines"] == 2283


@pytest.mark.parametrize("skipped", [500, 2000])
def test_a_window_of_a_log_is_explained(skipped: int, tmp_path: Path) -> None:
    """The log begins in the middle of fetch sessions and leader epochs."""
    name = "mixed-requests-elr-4"
    window = put(tmp_path / "node0" / "kafka-request.log", lines_of(log_of(name, "node0"))[skipped:])
    conforming(name, [window, log_of(name, "node100")])


def test_files_that_were_rolled_are_read_in_their_order(tmp_path: Path) -> None:
    """Kafka rolls the file hourly; in name order, the newest comes first."""
    whole, controller = log_of("requests-elr", "node1"), log_of("requests-elr", "node100")
    lines = lines_of(whole)
    newest = put(tmp_path / "node1" / "kafka-request.log", lines[700:])
    older = put(tmp_path / "node1" / "kafka-request.log.2026-11-21-23", lines[:700])
    rolled, expected = (
        {name: n for name, n in conforming("requests-elr", logs).figures.items() if "explained" in name}
        for logs in ([newest, older, controller], [whole, controller])
    )
    assert rolled == expected


def test_nodes_can_be_in_one_file(tmp_path: Path) -> None:
    """One file has all nodes' lines in time order; the listener address names the node of each."""
    lines = [line for log in all_logs("requests-elr") for line in lines_of(log)]
    together = put(tmp_path / "kafka-request.log", sorted(lines, key=lambda line: line[:24]))
    report = conforming("requests-elr", [together])
    assert report.figures["messages explained: answer_fetch"] == EXPLAINED["answer_fetch"][0]


# --- single changes of fields -------------------------------------------------------------------------


FETCH, ALTER, REGISTRATION = 1, 56, 62
FIELDS = {
    "currentLeaderEpoch": (FETCH, r'"currentLeaderEpoch":(\d+)'),
    "replicaEpoch": (FETCH, r'"replicaEpoch":(\d+)'),
    "member": (ALTER, r'"newIsrWithEpochs":(\[.*?\])'),
    "memberEpoch": (ALTER, r'"brokerEpoch":(\d+)\}'),
    "senderEpoch": (ALTER, r'"brokerEpoch":(\d+),"topics"'),
    "partitionEpoch": (ALTER, r'\}\],"leaderRecoveryState":\d,"partitionEpoch":(\d+)'),
    "leaderEpoch": (ALTER, r'"leaderEpoch":(\d+),"newIsr'),
    "answerIsr": (ALTER, r'"isr":(\[\d.*?\])'),
    "answerEpoch": (ALTER, r'\d\],"leaderRecoveryState":\d,"partitionEpoch":(\d+)'),
    "registeredEpoch": (REGISTRATION, r'"errorCode":0,"brokerEpoch":(\d+)'),
}
"""By field: the requests that have it, and a regular expression whose group matches its value."""
QUORUM = '"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"'


def another(old: str, chosen: random.Random) -> str:
    """Another number or list of brokers."""
    if not old.startswith("["):
        return str(max(0, int(old) + chosen.choice((-1, 1))))
    members = json.loads(old)
    if len(members) > 1 and chosen.random() < 0.5:
        members.remove(chosen.choice(members))
    else:
        one = chosen.choice(members)
        members.append({**one, "brokerId": 9} if isinstance(one, dict) else 9)
    return json.dumps(members, separators=(",", ":"))


@slow("a hundred changes of each recording, each replayed alone")
@pytest.mark.parametrize("name", NAMES)
def test_changes_of_checked_fields_are_noticed(name: str, tmp_path: Path) -> None:
    logs = {log: [line.decode() for line in lines_of(log)] for log in all_logs(name)}
    places: dict[str, list[tuple[Path, int, re.Match[str]]]] = defaultdict(list)
    for log, lines in logs.items():
        for number, text in enumerate(lines):
            for field, (api, pattern) in FIELDS.items():
                if f'"requestApiKey":{api},' in text and QUORUM not in text:
                    places[field] += ((log, number, found) for found in re.finditer(pattern, text))
    chosen, unseen = random.Random(name), []
    for number in range(often(20, 200)):
        log, at, found = chosen.choice(places[chosen.choice(sorted(places))])
        lines = [*logs[log]]
        lines[at] = lines[at][: found.start(1)] + another(found[1], chosen) + lines[at][found.end(1) :]
        changed = put(tmp_path / str(number) / log.parent.name / log.stem, [line.encode() for line in lines])
        try:
            others = [other for other in logs if other != log]
            report = replay(CLUSTERS_4_2 / name / "__cluster_metadata-0", broker_logs=[changed, *others])
            if not report.unexplained_count and not [f for f in report.findings if "line" in f.position]:
                unseen.append((lines[at][:300], found[0]))
        except TraceError:
            pass
    assert len(unseen) <= number / 20, unseen


# --- clocks that differ by seconds --------------------------------------------------------------------


RECORDING = CLUSTERS_4_2 / "requests-elr"


def shifted(directory: Path, node: str, seconds: float) -> Report:
    """Replay a broker's and the controller's log, with the timestamps of ``node`` shifted."""

    def shift(stamp: re.Match[str]) -> str:
        then = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f") + timedelta(seconds=seconds)
        return then.strftime("[%Y-%m-%d %H:%M:%S,%f")[:-3] + "]"

    logs = []
    for one in ("node1" if node == "node100" else node, "node100"):
        text = gzip.decompress((RECORDING / "logs" / one / "kafka-request.log.gz").read_bytes()).decode()
        if one == node:
            text = re.sub(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", shift, text, flags=re.MULTILINE)
        logs.append(directory / one / "kafka-request.log")
        logs[-1].parent.mkdir()
        logs[-1].write_text(text)
    return replay(RECORDING / "__cluster_metadata-0", broker_logs=logs)


@pytest.mark.parametrize(
    ("node", "seconds"), [("node1", 2), ("node1", -2), ("node2", -2), ("node100", 2), ("node100", -2)]
)
def test_a_clock_that_is_off_is_a_doubt(node: str, seconds: float, tmp_path: Path) -> None:
    """All that is reported about request logs is unreliable, and so is what the report only counts."""
    report = shifted(tmp_path, node, seconds)
    (doubt,) = report.doubts
    (said,) = re.findall(r"clocks differ .*/(node\d+)/kafka-request.log by ([-+]\d)", doubt.summary)
    assert (doubt.kind, said[0], said[1][0]) == ("clocks", node, f"{seconds:+}"[0])
    shown: list[Unexplained | Finding] = [*report.unexplained, *report.findings]
    shown = [one for one in shown if "line" in one.position]
    assert shown
    assert not any(one.reliable for one in shown)
    of_metadata = sum("line" not in one.position for one in report.findings)
    counted = report.unexplained_count + sum(report.findings_count.values())
    assert report.unreliable_count == counted - of_metadata >= len(shown)


def test_clocks_that_agree_are_no_doubt(tmp_path: Path) -> None:
    report = shifted(tmp_path, "node1", 0)
    assert (report.doubts, report.unexplained) == ([], [])


def test_one_wrong_epoch_does_not_make_a_clock_wrong() -> None:
    clocks = Clocks()
    for ahead_ms in (-9000, 20, 30, 40_000):
        clocks.add(Path("one.log"), ahead_ms)
    assert clocks.doubt() is None
    clocks.add(Path("one.log"), -9000)
    doubt = clocks.doubt()
    assert doubt is not None
    assert "one.log by -9.0 s" in doubt.summary
