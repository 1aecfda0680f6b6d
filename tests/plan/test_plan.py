"""`highwater plan` on made and recorded clusters: outcomes, runs, refusals, and what the log does not show."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.plan.cluster import read_cluster
from highwater.checker.plan.kinds import Shape
from highwater.checker.plan.search import Searches
from highwater.checker.plan.steps import read_plan
from highwater.model.language.interpreter import interpreter_of
from highwater.traces.rules.profiles import rule_set
from tests.command import highwater
from tests.generation.records import MIN_ISR, feature, setting
from tests.plan.made import DIRECTORY, cluster, counts, healthy, plan
from tests.plan.on_kafka import SETTINGS, healthy_state
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

ALONE = healthy(replicas=[5], isr=[5], leader=5)
UNDER = healthy(isr=[3, 5])
LEFT = healthy(isr=[3], eligibleLeaderReplicas=[5])
GIVEN = ("--assume", "unclean.leader.election.enable=false")


@pytest.mark.parametrize(
    ("options", "partition", "found", "made"),
    [
        ("--restart 5 --faults 0", healthy(), {}, {}),
        ("--restart 5", healthy(), {"min-isr": [0, 1]}, {}),
        ("--kill 5", healthy(), {"min-isr": [0, 1]}, {}),
        ("--roll all --faults 0", healthy(), {"min-isr": [1]}, {}),
        ("--roll all", healthy(), {"offline": [0, 1], "min-isr": [1, 1]}, {}),
        ("--restart 5 --faults 0", ALONE, {"offline": [1]}, {}),
        ("--drain 5 --faults 0", ALONE, {"stuck": [1], "offline": [1]}, {}),
        ("--unregister 5 --faults 0", ALONE, {"stuck": [1], "offline": [1]}, {}),
        ("--restart 3 --faults 0", UNDER, {"min-isr": [1]}, {}),
        ("--restart 3", UNDER, {"offline": [0, 1], "min-isr": [1, 1]}, {}),
        ("--restart 3 --faults 0", LEFT, {"offline": [1], "min-isr": [1]}, {"fenced": [5]}),
        ("--set min.insync.replicas=3", healthy(), {"min-isr": [0, 1]}, {}),
        (f"--remove-directory 9:{DIRECTORY} --faults 0", healthy(), {}, {}),
        ("--elect preferred --faults 0", healthy(leader=9), {}, {}),
    ],
)
def test_the_outcomes_of_a_plan(
    tmp_path: Path, options: str, partition: dict[str, Any], found: dict[str, Any], made: dict[str, Any]
) -> None:
    run, answer = plan(cluster(tmp_path / "made", partition, **made), *options.split())
    assert counts(answer) == found, run.output
    assert run.status == int(bool({"lost", "stuck", "fails"} & found.keys()))


def test_without_the_elr_a_lost_disk_loses_records(tmp_path: Path) -> None:
    """The last ISR member stays in the ISR and is elected again, whatever its log has. KIP-966 prevents that."""
    _, answer = plan(cluster(tmp_path / "made", UNDER, elr=0), "--restart", 3)
    assert counts(answer)["lost"] == [0, 1]
    assert answer["instead"]["text"] == "first wait for broker 9 in the ISR of t-0"
    assert answer["instead"]["left"] == 0


def test_losses_are_foreseen_after_the_elr_is_turned_off(tmp_path: Path) -> None:
    """Without the ELR, the last ISR member stays in the ISR, and is elected again with any log."""
    folder = cluster(tmp_path / "made", healthy(replicas=[3], isr=[3]), min_isr=1)
    # Without these rules, records are lost in other ways, too.
    rules = ("--rule", "last_known_leader=off", "--rule", "level_change_empties_elr=on")
    assert "lost" not in counts(plan(folder, "--restart", 3, *rules)[1])
    _, answer = plan(folder, "--feature", "eligible.leader.replicas.version=0", *rules)
    assert counts(answer)["lost"] == [0, 1]


def test_the_settings_that_the_log_lacks_are_named_and_can_be_assumed(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", UNDER, unclean=None)
    run, answer = plan(folder, "--restart", 3)
    (lost,) = [f for f in answer["findings"] if f["outcome"] == "lost"]
    assert (run.status, lost["faults"], lost["condition"]) == (1, 1, "unclean.leader.election.enable is true")
    assert any("unclean.leader.election.enable" in line for line in answer["assumptions"])
    run, answer = plan(folder, "--restart", 3, *GIVEN)
    assert run.status == 0
    assert "lost" not in counts(answer)
    # An assumption does not overrule the log.
    _, known = plan(cluster(tmp_path / "known", UNDER, unclean="true"), "--restart", 3, *GIVEN)
    assert counts(known)["lost"] == [0, 1]
    assert any("does not count for 1 partition:" in line for line in known["assumptions"])


def test_a_run_names_brokers_by_their_ids_and_follows_the_plan(tmp_path: Path) -> None:
    _, answer = plan(cluster(tmp_path / "made", healthy()), "--roll", "9,5", "--faults", 0)
    (finding,) = answer["findings"]
    steps = [step["sentence"] for step in finding["run"] if step["sentence"].startswith("PLAN")]
    stopped = "PLAN: broker {} is stopped, if it runs"
    assert steps == [stopped.format(9), "PLAN: broker 9 is back", stopped.format(5)]
    assert finding["run"][-1]["changes"]["isr"] == ["3,5", "3"]
    assert answer["plan"][:2] == ["restart broker 9", "wait until broker 9 is back"]


def test_what_can_happen_without_the_plan_is_told_apart(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", ALONE, healthy(), min_isr=1)
    run, answer = plan(folder, "--restart", 9)
    assert run.status == 1
    assert answer["outcomes"]["lost"] == {"by_faults": [0, 1], "without_plan": [0, 1]}
    assert plan(folder, "--restart", 9, "--added")[0].status == 0
    assert plan(folder, "--drain", 5, "--added")[0].status == 1


def test_a_topics_own_value_stays_in_force(tmp_path: Path) -> None:
    own = [setting(MIN_ISR, "2")]
    _, answer = plan(
        cluster(tmp_path / "made", UNDER, more=own), "--set", "min.insync.replicas=3", "--faults", 0
    )
    assert counts(answer) == {}
    _, answer = plan(cluster(tmp_path / "none", UNDER), "--set", "min.insync.replicas=3", "--faults", 0)
    assert counts(answer) == {"min-isr": [1]}


def test_a_plan_that_waits_for_a_drained_broker_is_not_safe(tmp_path: Path) -> None:
    run, answer = plan(cluster(tmp_path / "made", healthy()), "--drain", 3, "--roll", "3,5", "--faults", 0)
    assert (run.status, answer["never_ends"]) == (3, ["t-0"])
    assert answer["incomplete"] == "a wait of the plan never ends for t-0"


def test_a_risk_is_added_if_one_possible_setting_adds_it(tmp_path: Path) -> None:
    """If unclean election is on, it elects broker 9, and the plan prevents that; if it is off, nothing changes."""
    down = healthy(isr=[], leader=-1)
    folder = cluster(tmp_path / "made", down, unclean=None, fenced=[3, 5, 9])
    options = ("--set", "unclean.leader.election.enable=false", "--faults", 0, "--added")
    run, answer = plan(folder, *options)
    assert counts(answer)["stuck"] == [1]
    assert run.status == 1
    assert plan(folder, *options, *GIVEN)[0].status == 0


def test_the_first_line_says_how_old_the_log_is(tmp_path: Path) -> None:
    run = highwater("plan", cluster(tmp_path / "made", healthy()), "--restart", 3, "--quiet")
    assert run.out.startswith("SAFE with 1 fault: ")
    assert run.out.endswith("(as of 2023-11-14 22:13:20 UTC)\n")


def test_partitions_of_a_kind_are_searched_once(tmp_path: Path) -> None:
    turned = healthy(replicas=[9, 3, 5], isr=[9, 3, 5], leader=9)
    _, answer = plan(cluster(tmp_path / "made", healthy(), turned), "--restart", 3)
    few = plan(cluster(tmp_path / "few", healthy()), "--restart", 3)[1]
    assert answer["partitions"] == 2
    assert counts(answer) == {"min-isr": [0, 2]}
    assert few["distinct_states"] < answer["distinct_states"]  # broker 3 leads the first one alone


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--restart 7", "there is no broker '7'; there are 3, 5, 9"),
        ("--set min.insync.replicas=2,topic=u", "there is no topic 'u'"),
        ("--set retention.ms=1", "expected min.insync.replicas=1 to 12"),
        ("--reassign FILE", "Kafka answers INVALID_REPLICA_ASSIGNMENT for t-0"),
        ("--restart 3 --reassign FILE", "Kafka answers INVALID_REPLICA_ASSIGNMENT for t-0"),
        ("--reassign nowhere.json", "No such file"),
        ("--set min.insync.replicas=1,topic=", "there is no topic ''"),
        ("--cancel-reassignments", "Kafka answers NO_REASSIGNMENT_IN_PROGRESS"),
        ("--elect unclean", "Kafka answers ELECTION_NOT_NEEDED for t-0"),
        ("--elect preferred,u-0", "UNKNOWN_TOPIC_OR_PARTITION for u-0"),
        ("--feature eligible.leader.replicas.version=1", "the level is 1 already"),
        ("--remove-directory 3:/gone", f"broker 3 has the directories {DIRECTORY}, by their ids"),
        ("--kafka 3.9 --restart 3", "known are 4.0 to 4.4"),
        ("--assume x=1 --restart 3", "expected unclean.leader.election.enable"),
        ("", "no action: give one of --restart"),
    ],
)
def test_a_bad_plan_gets_one_line(tmp_path: Path, options: str, why: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [3, 7]}]}))
    folder = cluster(tmp_path / "made", healthy())
    run = highwater("plan", folder, *options.replace("FILE", str(file)).split())
    assert (run.status, run.out) == (2, "")
    assert why in run.err
    assert len(run.err.splitlines()) == 1


def test_a_moved_replica_is_searched_until_the_move_ends(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [9, 5]}]}))
    partition = {"replicas": [3, 5], "isr": [3, 5], "leader": 3}
    run, answer = plan(
        cluster(tmp_path / "made", partition), "--reassign", file, "--restart", 9, "--faults", 0
    )
    (stops,) = answer["findings"]
    assert (run.status, stops["outcome"]) == (0, "min-isr")
    assert any("9" in step["changes"].get("replicas", ("", ""))[1] for step in stops["run"])


def test_a_limit_makes_the_answer_unknown(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", healthy())
    run, answer = plan(folder, "--roll", "all", "--faults", 3, "--limit-seconds", "0.000001")
    assert run.status == 3
    assert answer["incomplete"] == "the search ended early (seconds)"
    assert highwater(
        "plan", folder, "--roll", "all", "--limit-seconds", "0.000001", "--quiet"
    ).out.startswith("NOT KNOWN")
    down = cluster(tmp_path / "down", healthy(isr=[], leader=-1), fenced=[3, 5, 9])
    assert "≥ 1" in highwater("plan", down, "--kill", 3, "--limit-seconds", "0.000001").out


def test_the_page_has_the_runs_and_no_script(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", ALONE, topic="<script>")
    page = tmp_path / "page.html"
    assert highwater("plan", folder, "--drain", 5, "--html", page, "--quiet").status == 1
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;-0 can stay offline without a fault" in text
    assert '<td class="down">down</td>' in text


def test_the_native_search_and_the_interpreter_reach_the_same_outcomes(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", LEFT, fenced=[5])
    observed = read_cluster([folder], None, {}, ["unclean.leader.election.enable=false"])
    (kind,) = observed.kinds(read_plan([("restart", "3")], observed.image), 1)
    (start,) = kind.starts
    searches = Searches()
    searches.search([start])
    model = searches.model(start.shape)
    interpreter = interpreter_of(model)
    seen, queue = {start.scalars}, deque([start.scalars])
    while queue:
        for step in interpreter.steps(queue.popleft()):
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                queue.append(step.state)
    assert len(seen) == searches.states
    lost = any(model.decode(state)["lost"] for state in seen)
    assert ("committed_records_are_lost" in searches.outcomes(start)) == lost


@pytest.mark.parametrize(
    ("process", "can"),
    [("UP", True), ("SLOW", True), ("KILLED", False), ("DAMAGED", False), ("STOPPING", False)],
)
def test_a_follower_joins_the_isr_only_while_it_runs(process: str, can: bool) -> None:
    setting = SETTINGS[0]
    model = Searches().model(Shape(setting.slots, len(setting.plan), 4, rule_set("kafka_4_2").rules))
    (join,) = [i for i in model.instances if i.action.name == "join" and i.parameters["broker"] == 1]
    plain = model.decode(healthy_state(model, setting))
    plain["partition"]["isr"], plain["process"] = [0, 2], ["UP", process, "UP"]
    refused = interpreter_of(model).refusals(model.protocol.state.encode(plain), join)
    assert (not list(refused)) == can


@needs_clusters_4_2
def test_a_known_defect_is_named_with_what_to_do_instead() -> None:
    folder = CLUSTERS_4_2 / "restarts-elr"
    run, answer = plan(folder, "--set", "min.insync.replicas=1", *GIVEN)
    stuck = [f for f in answer["findings"] if f["outcome"] == "stuck"]
    assert run.status == 1
    assert [f["defect"]["entry"] for f in stuck] == ["docs/kafka.md#cleared-elr"] * 2
    assert all(f["faults"] == 0 and f["added"] for f in stuck)
    instead = "leave it out: every topic has its own value"
    assert answer["instead"] == {"text": instead, "plan": [], "left": 0, "of": 2}


def test_a_log_in_doubt_has_no_safe_answer(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "made", healthy(), more=[feature("unheard.of", 1)])
    run, answer = plan(folder, "--restart", 3)
    assert run.status == 3
    assert "a feature that is not known: unheard.of" in answer["incomplete"]
    assert "SAFE" not in highwater("plan", folder, "--restart", 3).out
