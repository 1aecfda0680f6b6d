"""The text of reports, and all that a report says about an incident, as in transcript.txt.

Each line is what an operator would read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from highwater.traces.reports import advice
from highwater.traces.reports.advice import Holder, Replicas
from highwater.traces.reports.findings import (
    CONDITIONS,
    LIMIT,
    Candidate,
    Doubt,
    Finding,
    Unexplained,
    defects,
)
from highwater.traces.reports.observed import Controllers, FinalState, LogTruncation, ReplicaEnd
from highwater.traces.reports.report import Report, in_all, styled_summary, summary
from highwater.traces.reports.text import brokers, span, utc
from tests.command import highwater
from tests.generation import records
from tests.traces.broker_lines import Made
from tests.traces.metadata import made_logs
from tests.traces.metadata.made_logs import (
    MIN_ISR,
    TOPICS,
    beginning,
    change,
    default,
    feature,
    loss,
    setting,
    unreadable,
    write,
)
from tests.transcript import Transcript

TIME = 1_795_176_007_145
UNCLEAN = records.UNCLEAN
NOBODY: dict[str, Any] = {"replicas": [0, 1, 2], "leader": None, "isr": [], "elr": [], "last_known_elr": []}


def around(**changed: Any) -> dict[str, Any]:
    """The facts of a finding in a metadata log."""
    return {
        "cause": "unfence", "before": NOBODY, "after": NOBODY, "leader_epoch": 1, "min_isr": 2,
        "unclean_election": None, "settings": {}, "resized": None, **changed,
    }  # fmt: skip


def finding(name: str, offset: int, facts: dict[str, Any], **changed: Any) -> Finding:
    return replace(Finding("966.6", name, "t-0", {"offset": offset}, offset, "said", facts=facts), **changed)


def report(*found: Finding | Unexplained, profile: str = "kafka_4_2", **fields: Any) -> Report:
    """A report with these entries."""
    made = Report("run/log", "metadata log", profile, **fields)
    for one in found:
        made.add(one) if isinstance(one, Unexplained) else made.find(one)
    return made


def end(broker: int, leo: int, epoch: int | None, at_least: bool = False, **more: Any) -> ReplicaEnd:
    return ReplicaEnd(broker, leo, at_least, epoch, 1, epoch or 0, **more)


def offline(**changed: Any) -> dict[str, FinalState]:
    """The end of t-0, which has no leader."""
    given: dict[str, Any] = {
        "replicas": (0, 1, 2), "leader": None, "isr": (), "elr": (), "last_known_elr": (), "leaderless_since": 5,
        "failing": ("somebody_is_electable",),
    }  # fmt: skip
    return {"t-0": FinalState("t-0", **(given | changed))}


# --- incidents of findings ------------------------------------------------------------------------------

STUCK = finding("somebody_is_electable", 5, around(leader_epoch=3))
ELECTED = finding("leader_elected_cleanly", 9, around(leader_epoch=4, after={**NOBODY, "leader": 2}))
STRANGERS = finding(
    "elr_within_replicas", 5,
    around(
        before={**NOBODY, "replicas": [0, 1, 3]}, after={**NOBODY, "replicas": [0, 1], "elr": [1, 3]},
        cause="cancel_reassignment",
    ),
)  # fmt: skip
"""Brokers 1 and 3 are in the ELR of t-0, and only brokers 0 and 1 are replicas."""
LOSS = finding(
    "leader_completeness", 9,
    {
        "leader": 3, "leader_epoch": 4, "elected_from": "the ELR", "restarted": False, "leo": 4, "first_lost": 4,
        "end_lost": 9, "lost": 5, "had": [], "standing": "exact", "hwm": 9,
    },
    rule="B4",
)  # fmt: skip
LACKS = finding(
    "electable_completeness", 5, {"broker": 1, "member_of": "ISR", "leo": 0, "hwm": 9, "offset": 4}
)
CLEARED = replace(
    STUCK, facts=around(cause="change_min_isr", before={**NOBODY, "elr": [1], "last_known_elr": [2]})
)
BLAMED = finding("every_broker_comes_back", 7, around(after={**NOBODY, "last_known_elr": [4]}))
KNOWN = {"t-0": [end(0, 90, 1), end(1, 40, 2), end(2, 30, 2)]}
LACKING: dict[str, Any] = {"isr": (0, 1), "failing": ("electable_completeness",), "leaderless_since": None}
NO_REPLICA: dict[str, Any] = {"replicas": (0, 1), "failing": ("elr_within_replicas",)}


def with_facts(of: Finding, **changed: Any) -> Finding:
    return replace(of, facts={**of.facts, **changed})


def by_last_known(**changed: Any) -> Finding:
    """The election of the last known leader."""
    return with_facts(ELECTED, before={**NOBODY, "last_known_elr": [2]}, **changed)


def elections(*seconds: int, **causes: Any) -> Controllers:
    return Controllers([(epoch, 10 * epoch, 1000 * at) for epoch, at in enumerate(seconds)], **causes)


INCIDENTS: dict[str, Report] = {
    "offline without an eligible leader, and logs are not known": report(STUCK, final=offline()),
    "offline without an eligible leader, and the best log is known": report(STUCK, final=offline(), logs=KNOWN),
    "the best log comes after others in the order of the replicas": report(
        STUCK, final=offline(replicas=(2, 0, 1)), logs=KNOWN
    ),
    "an empty log, and one of which only the start is known": report(
        STUCK, final=offline(), logs={"t-0": [end(0, 0, -1), end(1, 40, 2, True)]}
    ),
    "waits for the last known leader": report(STUCK, final=offline(last_known_elr=(2,))),
    "the last known leader is no replica": report(STUCK, final=offline(last_known_elr=(3,))),
    "has a leader again": report(STUCK, final=offline(leader=1, isr=(1,))),
    "waits for a member of the ELR": report(STUCK, final=offline(elr=(1,))),
    "an ELR member is no replica, and another one is offline": report(
        STRANGERS, final=offline(elr=(1, 3), **NO_REPLICA)
    ),
    "an ELR member is no replica, and nobody else can lead": report(
        STRANGERS, final=offline(elr=(3,), **NO_REPLICA | {"leaderless_since": 7000}),
        logs={"t-0": [end(0, 90, 1), end(1, 40, 0)]},
    ),
    "an ELR member is no replica, and there is a leader": report(
        STRANGERS, final=offline(elr=(1, 3), isr=(0,), leader=0, **NO_REPLICA)
    ),
    "an ELR with others than replicas is over": report(STRANGERS, final=offline(replicas=(0, 1))),
    "an ISR member that follows lacks records": report(LACKS, final=offline(leader=0, **LACKING)),
    "an ISR member that leads lacks records": report(LACKS, final=offline(leader=1, **LACKING)),
    "an eligible replica lacks records, and logs are known": report(
        with_facts(LACKS, member_of="ELR"),
        final=offline(elr=(1,), failing=("electable_completeness",)), logs={"t-0": [*KNOWN["t-0"][::2], end(1, 9, 0)]},
    ),
    "an unclean election after a time without eligible leader": report(STUCK, ELECTED),
    "an unclean election of another partition, and of an earlier epoch": report(
        replace(STUCK, partition="t-1"), with_facts(STUCK, leader_epoch=1), ELECTED
    ),
    "a loss by an ELR member that a reassignment left there": report(STRANGERS, LOSS),
    "a loss by the election of another broker": report(STRANGERS, with_facts(LOSS, leader=1)),
    "a loss by an earlier election": report(STRANGERS, with_facts(LOSS, leader_epoch=1)),
    "a loss by an election from the ISR": report(STRANGERS, with_facts(LOSS, elected_from="the ISR", leo=7)),
    "the last known leader is elected": report(by_last_known()),
    "the last known leader is elected on request": report(by_last_known(cause="elect_leader")),
    "the last known leader is elected by a setting": report(by_last_known(unclean_election=True)),
    "an unclean election under rules without ELR": report(ELECTED, rules=("unclean_election_recovers",)),
    "an unclean election that lost nothing": report(with_facts(ELECTED, complete={"leo": 4, "hwm": 4})),
    "an uncertain and unreliable incident": report(replace(ELECTED, certain=False, reliable=False)),
    "the order of incidents": report(
        replace(LACKS, certain=False), STUCK, replace(ELECTED, partition="t-1"),
        replace(with_facts(LOSS, restarted=True), position={"file": "a", "line": 1}, time=None),
        final=offline(failing=("electable_completeness", "somebody_is_electable")),
    ),
    "incidents of one second and one cause are a group": report(
        *(replace(STUCK, partition=f"t-{n}", position={"offset": 5 + n}) for n in range(3)),
        replace(STUCK, partition="t-9", time=5000),
    ),
    "a finding without facts is in no incident": report(finding("leader_elected_cleanly", 9, {})),
    "a controller that is elected over and over": report(controllers=elections(0, 100, 103, 105, 140, 900)),
    "a few elections of a controller": report(controllers=elections(0, 50, 100, 150, 200, 250, 300)),
    "elections of a controller, with events that made it resign": report(
        controllers=elections(
            0, 1, 2, 3, 4, failures={"registerBroker: IllegalArgumentException": 5}, refused={"1": 4}
        )
    ),
    "elections of a controller, with a partition to blame": report(BLAMED, controllers=elections(0, 1, 2, 3, 4)),
    "a registration fails without a last known leader": report(
        finding("every_broker_comes_back", 7, around()), final=offline(failing=("every_broker_comes_back",))
    ),
    "a known defect": report(CLEARED),
    "an older version does not have the defect": report(CLEARED, profile="kip_966_first_phase"),
    "an uncertain finding shows no defect": report(replace(CLEARED, certain=False)),
    "an unreliable finding shows no defect": report(replace(CLEARED, reliable=False)),
    "another cause is another defect": report(with_facts(CLEARED, cause="change_min_isr or set")),
    "nothing was there to be cleared": report(with_facts(CLEARED, before=NOBODY)),
    "a leader was there when the ELR was cleared": report(
        with_facts(CLEARED, before={**NOBODY, "elr": [1], "leader": 0, "isr": [0]})
    ),
    "another topic has the name of a deleted one": report(
        with_facts(STUCK, topic_id="first"), final=offline(topic_id="second")
    ),
}  # fmt: skip


def steps(found: Iterable[advice.AdviceStep]) -> list[str]:
    return [
        part for s in found for part in (f"{s.when}: {s.text}", *(f"  $ {command}" for command in s.commands))
    ]


def said(found: Report) -> str:
    """Each incident of a report: its label, cause and steps, and those fields of its JSON that have a value."""
    lines: list[str] = []
    for one in found.incidents:
        rest = (f"{name} {value}" for name, value in one.to_json().items() if name not in IN_WORDS)
        known = [text for text in rest if not text.endswith((" None", " []", " True", " exact"))]
        lines += [one.label, *(f"  {text}" for text in (*known, *one.cause, *steps(one.steps)))]
    return "\n".join(lines) or "no incident"


IN_WORDS = ("headline", "cause", "steps")


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_incidents_of_findings(name: str, pinned: Transcript) -> None:
    pinned(f"findings: {name}", said(INCIDENTS[name]))


# --- the state of lost records on each replica ----------------------------------------------------------

HAD = [{"broker": 0, "records": 20}, {"broker": 1, "records": 4}]
CUT = (LogTruncation(10, 8, 5),)
ASIDE: dict[str, Any] = {"directory": "/data/t-0.5ead-delete"}
ENDS: dict[str, tuple[ReplicaEnd, ...]] = {
    "one has not followed the new leader, and one truncated": (end(0, 30, 4), end(1, 10, 5, True, truncations=CUT)),
    "a truncation before the loss": (end(0, 30, 4, truncations=(LogTruncation(10, 3, 4),)),),
    "no log is known": (),
    "one has followed the new leader": (end(0, 30, 5, True),),
    "a bound of an end": (end(3, 5, 4, True),),
    "an exact end below the loss": (end(3, 5, 4),),
    "a log that is set aside": (end(0, 30, 4, **ASIDE),),
    "a log that was set aside and is deleted, of no replica": (end(7, 30, 4, is_deleted=True, **ASIDE),),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("back", [(), (1, 3)], ids=["", "back in the ISR"])
def test_the_advice_after_a_loss(name: str, back: tuple[int, ...], pinned: Transcript) -> None:
    """Leader 2 lost the offsets 10 to 29 in leader epoch 5."""
    known = Replicas("t-0", (0, 1, 2, 3), ENDS[name])
    held = advice.holders(HAD, known, 2, 5, 10, 30, back)
    lines = [" ".join(f"{name} {value}" for name, value in one.to_json().items()) for one in held]
    lines += (step.text for step in advice.after_loss(known, held, 2, 10, 30, bool(back)))
    pinned(f"lost records: {name}{', and 1 and 3 are back in the ISR' * bool(back)}", "\n".join(lines))


@pytest.mark.parametrize("topic", ["t", "a.b_c-d", "$(reboot)", "a b;c", "it's"])
def test_no_name_in_a_log_adds_a_command(topic: str) -> None:
    """Kafka has no such topics, but a log may be damaged or made, and people paste the commands into a shell."""
    known = Replicas(f"{topic}-0", (0, 1), (end(0, 90, 1), end(1, 40, 2)))
    found = [*advice.elect_best_log(known), *advice.shut_out(known), *advice.compare(known, 1)]
    found += advice.after_loss(known, (Holder(0, "has", 1), Holder(1, "unknown", 1)), 2, 3, 4)
    found += [advice.no_unclean_election(topic, "topic"), *advice.elect_best_log(replace(known, ends=()))]
    lines = [c for step in found for c in step.commands if "server" not in c.split()[0]]
    assert len(lines) > 15
    for line in lines:
        for word in shlex.split(line.replace('"$(ls ', "").replace(' | paste -sd,)"', ""), comments=True):
            assert topic == "t" or topic in word or not set(word) & set(topic) & set("$();' ")


# --- made logs, by the command --------------------------------------------------------------------------

SMALLER = [change(0, isr=[0, 1]), change(0, isr=[0]), setting(MIN_ISR, "1")]
AWAY = change(0, isr=[2], leader=2, leaderRecoveryState=1)
AGAIN = "AAAAAAAAAAAAAAAAAAAAAw"
ELR_STAYS = ("--profile", "kip_966_first_phase", "--rule", "min_isr_change_empties_elr=off")
IN_ELR = [change(0, isr=[0, 1]), change(0, isr=[0], eligibleLeaderReplicas=[1]), setting(MIN_ISR, "1")]
LOGS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "an unclean election": (loss(), ()),
    "a topic allows unclean elections": ([setting(UNCLEAN, "true"), *loss()], ()),
    "the cluster allows unclean elections": ([default("true", UNCLEAN), *loss()], ()),
    "a topic's own setting is removed": (
        [setting(UNCLEAN, "false"), default("true", UNCLEAN), setting(UNCLEAN, None), *loss()], ()
    ),
    "a topic forbids what the cluster allows": ([default("true", UNCLEAN), setting(UNCLEAN, "false"), *loss()], ()),
    "a node's own setting may be in force": ([default("true", UNCLEAN, "7"), default("true", UNCLEAN), *loss()], ()),
    "a lowered min ISR leaves a member in the ELR": (IN_ELR, ELR_STAYS),
    "the member of the ELR is back": ([*IN_ELR, change(0, isr=[0, 1], eligibleLeaderReplicas=[])], ELR_STAYS),
    "min ISR was lowered while the ISR was too small": ([*SMALLER, AWAY], ()),
    "the ISR has grown since min ISR was lowered": ([*SMALLER, change(0, isr=[0, 1]), AWAY], ()),
    "min ISR was lowered while the ISR was full": ([setting(MIN_ISR, "1"), *SMALLER[:2], AWAY], ()),
    "a newer version between two elections": ([*loss(), feature("metadata.version", 34), *loss("u")], ()),
    "a setting that cannot be read": ([unreadable(setting(MIN_ISR, "1"), 9), *loss()], ()),
    "min ISR is above the number of replicas": ([setting(MIN_ISR, "9"), change(0, isr=[0]), *loss()], ()),
    "the topic was deleted": ([*loss(), records.removed_topic(TOPICS["t"])], ()),
    "two topics of one name": (
        [
            *loss(), records.removed_topic(TOPICS["t"]), records.topic("t", AGAIN),
            records.partition(0, AGAIN, [0, 1, 2]), records.partition_change(0, AGAIN, isr=[0, 1]),
            records.partition_change(0, AGAIN, **made_logs.UNCLEAN),
        ], (),
    ),
}  # fmt: skip


def without_times(text: str, folder: Path) -> str:
    """A text without the paths and the speed of this run."""
    text = re.sub(
        r"\d+\.\d s, [\d,]+ (\w+) a second", r"0.0 s, 0 \1 a second", text.replace(str(folder), "LOG")
    )
    return re.sub(r"\([\d,]+ records a second\)", "(0 records a second)", text)


@pytest.mark.parametrize("name", LOGS)
def test_the_report_on_a_made_log(name: str, tmp_path: Path, pinned: Transcript) -> None:
    """The record at offset n has timestamp n + 1000 ms."""
    values, options = LOGS[name]
    write(tmp_path, [*beginning(), *values])
    done = highwater("replay", tmp_path, *options)
    pinned(f"log: {name}", f"{without_times(done.output, tmp_path)}exit status {done.status}")


def test_the_report_on_a_loss_in_brokers_logs(tmp_path: Path, pinned: Transcript) -> None:
    cluster = Made(tmp_path)
    cluster.lose()
    pinned("brokers' logs: a loss", said(report(*cluster.findings(), figures={"broker logs": 3})))


# --- summaries ------------------------------------------------------------------------------------------


def line(number: int = 1, **fields: Any) -> Unexplained:
    """A line that does not conform, with two candidates."""
    checks = ("the broker is unfenced",), ("the broker is registered",)
    before = {"orders-3": {"isr": [1, 2], "leader": None}, "brokers": {"2": {"fenced": False}}, "min_isr": 2}
    differences = {"isr": ([1, 3], [1]), "leader": (None, 1), "a wide value": ("x" * 161, 1)}
    candidates = (
        Candidate("fence_broker", {"broker": 2}, *checks, differences), Candidate("alter_partition", {"isr": [1]}),
    )  # fmt: skip
    return replace(Unexplained({"offset": number}, TIME, "orders-3", before, candidates), **fields)


def broken(rule: str, **fields: Any) -> Finding:
    """A violation that belongs to no incident."""
    made = Finding(
        rule, f"property of {rule}", "orders-3", {"offset": 77}, TIME, "ELR [3].", "Records.", "KIP-966"
    )
    return replace(made, **fields)


COUNTS: dict[str, Any] = {"records": 26_269, "partitions": 12, "changes": 1234, "seconds": 2.0}
LOST = with_facts(LOSS, had=[{"broker": 0, "records": 24}], standing="at_least")
MANY = {f"{name}_{i}": i for name in ("A", "B") for i in range(500)}
SUMMARIES: dict[str, list[Report]] = {
    "no problem": [report(**COUNTS)],
    "operations": [report(operations=10, seconds=0.5)],
    "nothing read": [report()],
    "interrupted": [
        report(interrupted=True, **COUNTS), report(line(), interrupted=True), report(line(), line(), operations=1)
    ],
    "notes, figures and skipped records": [
        report(
            skipped={"FEATURE_LEVEL_RECORD": 1, "NO_OP_RECORD": 3000}, notes=["the last batch is torn"], **COUNTS,
            figures={"unclean_elections": 2000, "beliefs": 3, "milliseconds under min ISR": 3_723_456, "short_ms": 9},
        )
    ],
    "lines that do not conform": [report(*map(line, (4943, 5000, 6000)), line(candidates=()))],
    "no action comes close": [report(line(candidates=(), time=None, partition=None, before={}))],
    "violations by property": [
        report(broken("966.4", certain=False)),
        report(
            *(broken(r, certain=False) for r in ("966.12", "B8", "966.4", "966.6, 966.8", "841.2", "966.6")),
            broken("966.6", position={"offset": 2}, reliable=False), broken("966.6"),
            broken("966.7", kip="", partition=None, position={"file": "/a/node2/x.log", "line": 3}, time=None),
        ),
    ],
    "incidents with other lines": [report(ELECTED, LOST, line(), notes=["a note"], **COUNTS)],
    "incidents over the limit": [report(*(replace(ELECTED, partition=f"t-{n}", time=1000 * n) for n in range(9)))],
    "offline partitions": [
        report(final={f"t-{n}": replace(offline(elr=(2, 1))["t-0"], partition=f"t-{n}") for n in range(5)})
    ],
    "gaps in the input": [
        report(doubts=[Doubt("missing records", "gap", {"offset": 3}, of) for of in (None, (), ("t",))])
    ],
    "several inputs": [
        report(ELECTED, LOST, **COUNTS), report(replace(STUCK, partition="b-1"), line(), final={}, **COUNTS),
        report(replace(broken("1"), certain=False)),
    ],
    "more than a screenful": [
        report(
            *[line(before={f"t-{i}": {f"field{k}": [1] * 90 for k in range(40)} for i in range(200)})] * (LIMIT + 50),
            *(broken(f"9.{i}", summary="y" * 5000, at_risk="z" * 5000) for i in range(300)),
            *[broken("8.1")] * (LIMIT + 50),
            skipped=MANY, notes=list(MANY), figures=MANY,
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_summary_of_a_report(name: str, pinned: Transcript) -> None:
    reports = SUMMARIES[name]
    text = "\n\n".join([*map(str, reports), in_all(reports)])
    pinned(f"summary: {name}", text)
    assert max(len(summary(one)) for one in reports) <= 60
    assert max(len(one.unexplained) for one in reports) <= LIMIT


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", SUMMARIES)
def test_no_line_breaks_inside_a_word_or_is_wider_than_the_terminal(name: str, width: int) -> None:
    for one in SUMMARIES[name]:
        drawn = [click.unstyle(click.style(text, **style)) for text, style in styled_summary(one, width)]
        words = {word for text in drawn for word in text.split()}
        assert words == {word for text in summary(one) for word in text.split()}
        assert all(len(text) <= width or any(len(word) > 40 for word in text.split()) for text in drawn)


TEXTS = ("\x1b[31mred\x1b[0m", "a\nb\rc", "\u202egnp", "\x00\x07", "[bold]x[/bold] [/]")


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_of_the_input_commands_the_terminal(text: str) -> None:
    candidate = Candidate(text, {text: text}, (text,), (text,), {text: (text, [text])})
    shown = Report(text, text, text, notes=[text], skipped={text: 1}, figures={text: 1, text + " ms": 2})
    shown.add(line(partition=text, before={text: {text: text}, "x": text}, candidates=(candidate,)))
    shown.find(Finding(text, text, text, {text: text}, 1, text, text, text))
    for lines in (summary(shown), [part for part, _ in styled_summary(shown, 400)]):
        assert all(part.isprintable() for part in lines)
        assert any(text in part for part in lines) == text.isprintable()


def test_the_colour_of_the_verdict_is_that_of_its_severity() -> None:
    colours = [
        next(iter(styled_summary(one, 100)))[1]["fg"] for one in (report(), report(ELECTED), report(LOST))
    ]
    assert colours == ["green", "yellow", "red"]


def test_times_and_numbers_in_words(pinned: Transcript) -> None:
    times = [utc(time) for time in (0, TIME, None, -1, 2**62, 253_402_300_800_000)]
    spans = [span(ms) for ms in (0, 999, 1000, 59_500, 3_723_999, 7_200_000, 360_000_000)]
    pinned("words", "\n".join([*times, *spans, *(brokers(range(n)) for n in (0, 1, 3, 1000))]))


# --- the catalogue of known defects ---------------------------------------------------------------------


def test_the_catalogue_of_defects_is_that_of_the_page() -> None:
    assert set(CONDITIONS) == set(defects())
    text = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
    for name, defect in defects().items():
        entry = re.split(rf"(?m)^## {re.escape(defect.anchor)}$", text)
        assert len(entry) == 2, name
        own = " ".join(entry[1].split("\n## ", 1)[0].split())
        assert own.startswith(f"**{defect.title}**"), name
        assert all(issue in own for issue in defect.upstream), name
