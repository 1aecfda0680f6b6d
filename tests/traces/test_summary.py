"""The summary of a replay: its lines in each situation, without escapes; inputs in the form of public reports."""

from __future__ import annotations

from dataclasses import replace
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import click
import pytest

from highwater.checker.base.problems import Status
from highwater.checker.commands.replay import _status
from highwater.traces.replay import replay
from highwater.traces.reports import advice
from highwater.traces.reports.advice import Replicas
from highwater.traces.reports.findings import LIMIT, Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import FinalState, Followers, PartitionState
from highwater.traces.reports.report import Report, figure, firsts, headline, in_all, styled_summary, summary
from highwater.traces.reports.text import brokers, duration, utc
from tests import recordings
from tests.traces.broker_lines import Made
from tests.traces.test_incidents import around

TIME = 1_795_176_007_145


def report(**fields: Any) -> Report:
    given: dict[str, Any] = {"records": 26_269, "partitions": 12, "changes": 1234, "seconds": 2.0, **fields}
    return Report("run/log", "metadata log", "kafka_4_2", **given)


def line(number: int = 1, **fields: Any) -> Unexplained:
    """A line that does not conform, with two candidates."""
    differences = {"isr": ([1, 3], [1]), "leader": (None, 1)}
    checks = ("the broker is unfenced",), ("the broker is registered",)
    before = {"orders-3": {"isr": [1, 2], "leader": None}, "brokers": {"2": {"fenced": False}}, "min_isr": 2}
    candidates = (
        Candidate("fence_broker", {"broker": 2}, *checks, differences), Candidate("alter_partition", {"isr": [1]})
    )  # fmt: skip
    return replace(Unexplained({"offset": number}, TIME, "orders-3", before, candidates), **fields)


def finding(name: str = "elr_only_under_min_isr", rule: str = "966.6", **fields: Any) -> Finding:
    texts = "ELR [3] with ISR [1, 2], and min ISR 2.", "Acknowledged records.", "KIP-966"
    return replace(Finding(rule, name, "orders-3", {"offset": 77}, TIME, *texts), **fields)


def drawn(shown: Report, width: int = 120, terminal: bool = False) -> str:
    drawn = "\n".join(click.style(text, **style) for text, style in styled_summary(shown, width))
    return drawn if terminal else click.unstyle(drawn)


def said(shown: Report) -> str:
    """The plain summary, after a check that the terminal form shows its first line."""
    plain = "\n".join(summary(shown))
    assert plain.splitlines()[0] in drawn(shown, 500)
    return plain


def test_no_problem() -> None:
    assert summary(report()) == [
        "No problem found: every change conforms to KIP-966 as Kafka 4.2 implements it",
        "  input: run/log",
        "  metadata log, kafka_4_2: 26,269 records, 12 partitions, 1,234 changes, 2.0 s, "
        "13,134 records a second",
    ]


def test_operations_where_there_are_no_records() -> None:
    text = said(report(operations=10, records=0, seconds=0.5))
    assert "10 operations, 12 partitions" in text
    assert "0 records" not in text
    assert "20 operations a second" in text
    assert "a second" not in said(report(seconds=0.0))


def test_interrupted() -> None:
    stopped = report(interrupted=True)
    assert said(stopped).startswith("INTERRUPTED: No problem found so far: ")
    stopped.add(line())
    assert headline(stopped).startswith(
        "INTERRUPTED: DOES NOT CONFORM: 1 record does not conform to KIP-966 as "
    )
    stopped.operations = 1
    stopped.add(line())
    assert headline(stopped).startswith("INTERRUPTED: DOES NOT CONFORM: 2 operations do not conform to ")


def test_skipped_notes_and_figures() -> None:
    skipped = {"FEATURE_LEVEL_RECORD": 1, "NO_OP_RECORD": 3000}
    figures = {"unclean_elections": 2000, "under_min_isr_ms": 3_723_456}
    text = said(report(skipped=skipped, notes=["the last batch is torn"], figures=figures))
    assert "  skipped (not modelled): NO_OP_RECORD 3,000, FEATURE_LEVEL_RECORD 1" in text
    assert "  note: the last batch is torn" in text
    assert "  under min ISR 1:02:03, unclean elections 2,000" in text


def test_the_first_record_that_does_not_conform_is_shown_in_full() -> None:
    shown = report()
    for number in (4943, 5000, 6000):
        shown.add(line(number))
    text = said(shown)
    assert text.startswith("DOES NOT CONFORM: 3 records do not conform to ")
    expected = [
        "first of 3 that do not conform",
        "  offset 4943, 2026-11-20 12:00:07.145 UTC, orders-3",
        "  before:",
        "    state: min_isr 2",
        "    orders-3: isr [1, 2], leader none",
        "    brokers 2: fenced false",
        "  nearest: fence_broker(broker=2)",
        "    refused by: the broker is unfenced",
        "    isr: expected [1, 3], recorded [1]",
        "    leader: expected none, recorded 1",
        "  nearest: alter_partition(isr=[1])",
        "  and 2 more that do not conform; --json and --html list them all",
    ]
    assert summary(shown)[1:-2] == expected
    assert summary(shown)[-1].startswith("  metadata log, "), "what was read comes last"
    for part in expected:
        assert part.strip() in drawn(shown)


def test_no_candidate_comes_close() -> None:
    shown = report()
    shown.add(line(candidates=(), time=None, partition=None, before={}))
    assert summary(shown)[2:4] == ["  offset 1, no time", "  no action of the model comes close"]


def test_violations_are_grouped_by_property() -> None:
    shown = report()
    shown.find(finding("third", "966.4", certain=False))
    assert headline(shown) == "POSSIBLY VIOLATED: 1 violation of 1 property"
    for number in (77, 99):
        shown.find(finding(position={"offset": number}))
    place: dict[str, Any] = {"partition": None, "position": {"file": "x", "line": 3}, "time": None}
    shown.find(finding("other", "966.12", kip="", **place))
    assert headline(shown) == "VIOLATED: 4 violations of 3 properties"
    lines = summary(shown)
    told = lines[lines.index("violations") + 1 :]
    about = ["    ELR [3] with ISR [1, 2], and min ISR 2.", "    at risk: Acknowledged records."]
    assert told[:8] == [
        "  966.6 elr_only_under_min_isr (KIP-966): 2, the first",
        "    orders-3, offset 77, 2026-11-20 12:00:07.145 UTC", *about,
        "  966.12 other", "    file x, line 3, no time", *about,
    ]  # fmt: skip
    assert told[8] == "  966.4 third (possible) (KIP-966)"
    assert told[12] == "  the first of each property; --json and --html list them all"


def test_properties_are_in_the_order_of_the_rules_with_certain_findings_first() -> None:
    shown = report()
    for rule in ("966.12", "B8", "966.4", "966.6, 966.8", "841.2", "966.6"):
        shown.find(finding(f"property of {rule}", rule, certain=False, position={"offset": 1}))
    shown.find(finding("property of 966.6", "966.6", position={"offset": 2}))
    first, *rest = firsts(shown)
    assert (first.certain, first.position) == (True, {"offset": 2})
    assert [f.rule for f in rest] == ["841.2", "966.4", "966.6, 966.8", "966.12", "B8"]


def incident(**facts: Any) -> Finding:
    """A finding of an unclean election."""
    nobody = around()["before"]
    facts = around(after={**nobody, "leader": 2}, **facts)
    return finding("leader_elected_cleanly", "966.13", facts=facts)


def lost(**changed: Any) -> Finding:
    facts = {
        "leader": 2, "leader_epoch": 1, "restarted": False, "elected_from": None, "lost": 24, "first_lost": 1,
        "end_lost": 25, "leo": 1, "hwm": 25, "had": [{"broker": 0, "records": 24}], "standing": "exact",
    }  # fmt: skip
    return finding("leader_completeness", "B4", facts=facts | changed)


def test_the_incident_comes_first_and_what_was_read_last() -> None:
    figures = {"beliefs": 3, "brokers": 2, "under_min_isr_ms": 1000}
    shown = report(figures=figures, notes=["the last batch is torn"], skipped={"NO_OP_RECORD": 1})
    shown.find(incident())
    shown.find(lost())
    lines = summary(shown)
    assert (
        lines[0] == "DATA LOSS: orders-3 lost 24 committed records (offsets 1–24) at 2026-11-20 12:00:07 UTC"
    )
    labels = [
        line.strip().split(": ")[0] for line in lines[1:] if line.startswith("  ") and line[2] not in " $"
    ]
    assert labels[:6] == ["cause", "surviving copies", "do now", "restore", "clients", "known bug"]
    assert lines[-5:] == [
        "  input: run/log",
        "  metadata log, kafka_4_2: 26,269 records, 12 partitions, 1,234 changes, 2.0 s, 13,134 records a "
        "second",
        "  under min ISR 0:00:01, brokers 2, beliefs 3",
        "  note: the last batch is torn",
        "  skipped (not modelled): NO_OP_RECORD 1",
    ]


def test_nonconforming_records_are_named_beside_an_incident() -> None:
    shown = report()
    shown.find(incident())
    shown.add(line())
    assert summary(shown)[1].startswith("  DOES NOT CONFORM: 1 record does not conform to KIP-966")


def test_an_uncertain_incident_says_so() -> None:
    shown = report()
    shown.find(replace(incident(), certain=False, reliable=False))
    assert summary(shown)[0].startswith("POSSIBLE AT RISK: orders-3 may have lost")
    assert summary(shown)[0].endswith(" (not reliable: incomplete input)")
    assert in_all([shown], rate=False) == "1 input, 26,269 records: 1 possible incident"


def test_incidents_over_the_limit_are_counted() -> None:
    shown = report()
    for number in range(9):
        shown.find(replace(incident(), partition=f"t-{number}", time=TIME + 1000 * number))
    assert headline(shown).endswith(" (and 8 more incidents)")
    assert "and 2 more incidents; --json and --html list them" in summary(shown)


def test_partitions_that_are_offline_at_the_end_are_listed() -> None:
    ends = {
        f"t-{n}": FinalState(f"t-{n}", (1, 2), None if n else 1, (), (2, 1), (), 5 if n else None)
        for n in range(5)
    }
    assert (
        "offline at the end of the input: 4 partitions: t-1 (waits for broker 2 or 1), t-2 (waits for broker 2 or 1), "
        "t-3 (waits for broker 2 or 1), and 1 more"
    ) in summary(report(final=ends))


def test_the_last_line_sums_up_what_was_lost_and_what_is_stuck() -> None:
    one, two = report(), report(final={"b-1": FinalState("b-1", (1,), None, (), (), (), 5, ("x",))})
    one.find(incident())
    one.find(lost())
    two.find(replace(incident(), property="somebody_is_electable", partition="b-1"))
    two.add(line())
    assert in_all([one, two], rate=False) == (
        "2 inputs, 52,538 records: 24 committed records lost (orders-3), 1 partition stuck (b-1), 1 not conforming"
    )
    assert in_all([report()]) == "1 input, 26,269 records: no problem found (13,134 records a second)"


@pytest.mark.parametrize(("length", "told"), [(160, "x" * 160), (161, "x" * 159 + "…")])
def test_a_wide_value_is_cut_and_evidence_is_not(length: int, told: str) -> None:
    shown, evidence = report(), ("the HWM had reached 304 " * 20).strip()
    shown.add(line(candidates=(Candidate("act", {}, differences={"field": ("x" * length, 1)}),)))
    shown.find(finding(summary=evidence))
    assert f"    field: expected {told}, recorded 1" in summary(shown)
    assert f"    {evidence}" in summary(shown)


@pytest.mark.parametrize("width", [80, 100])
def test_nothing_breaks_inside_a_name_and_nothing_is_wider_than_the_terminal(width: int) -> None:
    shown = report()
    shown.find(incident(unclean_election=True))
    place = {"file": "/some/where/that/is/rather/long/logs/node2/server.log.gz", "line": 3}
    shown.find(finding("consumers_read_consistently", "B4, B6", position=place))
    name = "a-topic-with-a-name-as-long-as-kafka-lets-it-be-" * 2 + "0"
    shown.find(finding("other", partition=name))
    lines = [line.rstrip() for line in drawn(shown, width).splitlines()]
    assert max(len(line) for line in lines if name not in line) <= width
    words = {word for line in lines for word in line.split()}
    assert {word for line in summary(shown) for word in line.split()} == words
    assert "node2/server.log.gz," in words, "a file by what tells it apart"


def test_more_violations_than_the_limit() -> None:
    shown = report()
    for number in range(LIMIT + 50):
        shown.add(line(number))
        shown.find(finding(position={"offset": number}))
    assert (len(shown.unexplained), len(shown.findings)) == (LIMIT, LIMIT)
    text = said(shown)
    assert f"and {LIMIT + 49} more that do not conform; --json and --html list the first {LIMIT}" in text
    assert f"{LIMIT + 50}, the first" in text
    assert f"the first of each property; --json and --html list the first {LIMIT}" in text


def test_never_more_than_a_screenful() -> None:
    many = {f"{name}_{i}": i for name in ("A", "B") for i in range(500)}
    shown = report(skipped=many, notes=list(many), figures=many)
    wide = {f"t-{i}": {f"field{k}": list(range(90)) for k in range(40)} for i in range(200)}
    differences = {f"f{i}": ("x" * 5000, list(range(5000))) for i in range(500)}
    candidate = Candidate("act", dict(many), tuple(many), (), differences)
    for _ in range(200):
        shown.add(line(before=wide, candidates=(candidate,) * 50))
    for i in range(300):
        shown.find(finding(f"property_{i}", summary="y" * 5000, at_risk="z" * 5000))
    lines = summary(shown)
    assert len(lines) <= 60
    assert max(map(len, lines)) < 1000
    text = "\n".join(lines)
    for part in ("994 more types", "998 more notes", "48 more close actions", "294 more properties"):
        assert f"and {part}" in text
    assert drawn(shown, 120).count("\n") < 150


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m", "a\nb\rc", "\u202egnp", "\x00\x07", "[bold]x[/bold] [/]"]
)
def test_no_text_of_the_input_commands_the_terminal(text: str) -> None:
    shown = Report(text, text, text, notes=[text], skipped={text: 1}, figures={text: 1, text + " ms": 2})
    candidate = Candidate(text, {text: text}, (text,), (text,), {text: (text, [text])})
    shown.add(line(partition=text, before={text: {text: text}, "x": text}, candidates=(candidate,)))
    shown.find(
        finding(text, text, partition=text, position={text: text}, summary=text, at_risk=text, kip=text)
    )
    lines = summary(shown)
    assert all(part.isprintable() for part in lines)
    assert all(part.isprintable() for part in drawn(shown, 400).splitlines())
    if text.isprintable():
        assert text in drawn(shown, 400)


def test_a_terminal_gets_colours() -> None:
    shown = report()
    assert "\x1b[32m" in drawn(shown, terminal=True)
    shown.add(line())
    assert "\x1b[31m\x1b[1m" in drawn(shown, terminal=True)


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (0, "1970-01-01 00:00:00.000 UTC"),
        (TIME, "2026-11-20 12:00:07.145 UTC"),
        (None, "no time"),
        (-1, "no time"),
        (2**62, f"time {2**62}"),
        (253_402_300_800_000, "time 253402300800000"),
    ],
)
def test_times(time: int | None, shown: str) -> None:
    assert utc(time) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "0:00:01"), (3_723_999, "1:02:03"), (360_000_000, "100:00:00")],
)
def test_durations(milliseconds: int, shown: str) -> None:
    assert duration(milliseconds) == shown


def test_figures_are_durations_where_ms_is_a_word() -> None:
    assert figure("leaderless_ms", 61_000) == "leaderless 0:01:01"
    assert figure("milliseconds under min ISR", 61_000) == "under min ISR 0:01:01"
    assert figure("items", 61_000) == "items 61,000"


# --- inputs in the form of public reports -------------------------------------------------------------


FIELD = recordings.folder("field")
needs_field = recordings.needs("field")


@needs_field
def test_a_partition_with_one_replica_has_a_report() -> None:
    lost = [(i.partition, i.lost, i.standing) for i in replay(FIELD / "one-replica").incidents if i.lost]
    assert lost == [("two-1", 143, "exact")]


def test_a_partition_with_one_replica_has_nothing_to_compare() -> None:
    (step,) = advice.compare(Replicas("t-0", (1,)), 1)
    assert (step.text, step.commands) == ("No other replica of t-0 has a log to compare with.", ())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "no broker"),
        (1, "broker 0"),
        (3, "brokers 0, 1 and 2"),
        (1000, "brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 989 more"),
    ],
)
def test_a_sentence_lists_any_number_of_brokers(number: int, text: str) -> None:
    assert brokers(range(number)) == text


@needs_field
def test_a_good_copy_is_never_given_up() -> None:
    (found,) = replay(FIELD / "info-only" / "info").incidents
    states = {h.broker: (h.state, h.records, h.standing) for h in found.holders}
    assert states == {0: ("has", 54, "at_least"), 1: ("has", 54, "at_least"), 2: ("lacks", 0, "exact")}
    (found,) = replay(FIELD / "count-too-low").incidents
    assert (found.lost, found.standing) == (54, "at_least")


@needs_field
def test_advice_holds_at_the_end_of_the_input() -> None:
    (found,) = replay(FIELD / "stale-advice").incidents
    assert found.steps[0].text.startswith("Brokers 0 and 1 have joined the ISR since the election")
    assert not any("stop" in command for step in found.steps for command in step.commands)


def test_a_broker_that_is_elected_with_its_own_log_has_not_truncated_it() -> None:
    """Broker 1 joins the ISR of leader 2. Broker 0 still has the lost records: another election makes it the leader."""

    def state(epoch: int, leader: int | None, *isr: int) -> PartitionState:
        return PartitionState((0, 1, 2), isr, (), (), leader, epoch, epoch)

    elected, joined, none = state(4, 2, 2), state(4, 2, 1, 2), state(5, None)
    after = Followers.of(elected).after(elected, joined).after(joined, none)
    assert after == Followers(4, frozenset({1, 2}))
    assert after.after(none, state(6, 1, 1)) == after, "its log is that of leader 2"
    assert after.after(none, state(6, 0, 0)) == Followers(6, frozenset({0}))


@needs_field
@pytest.mark.parametrize("layout", ["compose", "json", "kubectl-timestamps", "strimzi"])
def test_a_layout_gives_the_report_of_the_plain_one(layout: str) -> None:
    plain, (found,) = replay(FIELD / "bundle").incidents, replay(FIELD / "layouts" / layout).incidents
    assert [one.to_json() for one in plain] == [found.to_json()]


@needs_field
def test_a_migration_raises_no_false_alarm() -> None:
    report = replay(FIELD / "zk-migration")
    assert (report.unexplained_count, [d.kind for d in report.doubts]) == (0, ["migration"])


@needs_field
def test_a_dump_without_record_metadata_is_read() -> None:
    report = replay(FIELD / "skip-record-metadata" / "dump-4.2.1-skip.txt")
    assert (report.records, report.changes, report.unexplained_count) == (140, 10, 0)


@needs_field
def test_lines_that_cannot_be_read_are_a_caveat(tmp_path: Path) -> None:
    for path in (FIELD / "info-only" / "info").rglob("*.*"):
        place = tmp_path / path.relative_to(FIELD / "info-only" / "info")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text().replace("[2026-11", "[26-11"))
    doubts = [d for d in replay(tmp_path).doubts if d.kind == "unread lines"]
    assert [d.summary.partition(": ")[0] for d in doubts] == sorted(map(str, tmp_path.rglob("s*.log")))


def test_a_loss_fails_although_the_input_is_incomplete(tmp_path: Path) -> None:
    cluster = Made(tmp_path)
    cluster.lose()
    report = Report("x", "metadata log", "kafka_4_2", figures={"broker logs": 3})
    for one in cluster.findings():
        report.find(changed(one, reliable=False))
    report.doubts.append(Doubt("missing records", "offsets 3 to 5 are missing", {"offset": 6}))
    assert [_status(report, least) for least in ("any", "lost")] == [Status.VIOLATED] * 2
