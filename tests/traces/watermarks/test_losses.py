"""Losses of committed records: the replay finds each one and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.brokers.losses import cut, extend, first_difference
from highwater.traces.reports.text import records
from tests.traces.broker_lines import Made
from tests.traces.watermarks.scenes import (
    ELECTABLE,
    GONE,
    LOST,
    READ,
    elect,
    lost,
)


def test_an_unclean_election_loses_what_the_new_leader_lacks(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.lose()
    found = {finding.property: finding for finding in made.findings()}
    assert set(found) == {LOST, READ}
    loss = found[LOST]
    assert (loss.rule, loss.kip, loss.certain) == ("B4, 966.6", "KIP-966", True)
    assert loss.position == {"offset": made.changes[2].position}
    assert loss.time == made.changes[2].time
    assert "outside ISR and ELR" in loss.summary
    assert loss.at_risk.startswith(
        "20 committed records (offsets 10–29) are lost; broker 0 had 20 of them (LEO 30); broker 1 had 4 of them"
    )
    assert found[READ].position["file"].endswith("2-server.log")


def test_consumers_see_nothing_of_a_loss_while_the_new_leader_answers_nothing(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    assert READ not in made.properties()
    made.hwm(2, 3, 5)
    assert READ in made.properties()


@pytest.mark.parametrize(("min_isr", "standing"), [(2, "exact"), (1, "at_least"), (None, "at_least")])
def test_a_loss_is_exact_if_the_last_isr_could_not_commit(
    tmp_path: Path, min_isr: int | None, standing: str
) -> None:
    """Broker 0 is alone in the ISR and writes 5 more records, which are committed only if min ISR is 1."""
    made = Made(tmp_path, min_isr=min_isr)
    made.begin()
    made.alter(isr=(0, 1))
    made.commit(0, 10, 30, (1,))
    made.alter(isr=(0,))
    elect(made, 2, 10, 8, isr=(2,))
    made.follows(1, 30)
    made.follows(0, 35)
    loss = next(f for f in made.findings(min_isr) if f.property == LOST)
    assert (lost(loss), loss.facts["standing"]) == ((10, 30), standing)


@pytest.mark.parametrize(
    ("followers", "gone"),
    [
        ((4, 6), (6, 10)),
        ((3, 2), (4, 10)),
        ((9, 0), (9, 10)),
        # Followers still have the records until they truncate to the new leader's log, and one may be down.
        ((10, 10), None),
        ((4,), None),
    ],
)
def test_records_that_no_replica_has_are_gone(
    made: Made, followers: tuple[int, ...], gone: tuple[int, int] | None
) -> None:
    elect(made, 2, 4, 4, isr=(2,))
    for broker, leo in enumerate(followers):
        made.follows(broker, leo)
    findings = {f.property: f for f in made.findings()}
    assert lost(findings[LOST]) == (4, 10)
    assert (GONE in findings) == (gone is not None)
    if gone is not None:
        assert findings[GONE].at_risk.startswith(f"no replica has {records(*gone)} any more")
        assert (findings[GONE].rule, findings[GONE].kip) == ("P1", "KIP-966")


def test_a_member_of_isr_or_elr_that_is_elected_with_less(made: Made) -> None:
    made.alter(isr=(), elr=(0, 1), leader=None)
    elect(made, 1, 7, 7, isr=(1,), elr=(0,))
    findings = made.findings()
    assert [f.property for f in findings] == [LOST, ELECTABLE, READ]
    assert findings[1].rule == "966.6"
    assert "3 committed records (offsets 7–9)" in findings[1].at_risk


def test_a_leader_that_restarts_in_its_epoch_with_less(made: Made) -> None:
    made.restarted(0, 10)
    made.leads(0, 10, 10)
    assert made.findings() == []
    made.restarted(0, 9)
    made.leads(0, 9, 9)
    loss = next(f for f in made.findings() if f.property == LOST)
    assert "restarted in leader epoch 0" in loss.summary
    assert loss.position["file"].endswith("0-state-change.log")


def test_a_longer_log_that_lacks_what_was_committed(made: Made) -> None:
    """Broker 0 has 25 records of epoch 0, 10 of them committed; epoch 1 commits others from offset 10."""
    elect(made, 1, 10, 10, isr=(1,))
    made.min_isr = 1
    made.hwm(1, 10, 14)
    made.alter(leader=None)
    made.restarted(0, 10)
    made.follows(0, 25, 10)
    elect(made, 0, 25, 10, isr=(0,))
    loss = next(f for f in made.findings(None) if f.property == LOST)
    assert "its log diverges at offset 10" in loss.summary
    assert loss.at_risk.startswith("4 committed records (offsets 10–13)")


def test_a_log_that_grew_without_a_leader_is_unknown(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.commit(1, 10, 14, (2,))
    made.alter(leader=None)
    made.follows(0, 12, 10)
    elect(made, 0, 14, 10, isr=(0,))
    assert made.findings() == []


def test_moves_in_the_ms_in_which_a_leader_follows_count(made: Made) -> None:
    made.leo(0, 1, 12)
    made.leo(0, 2, 12)
    made.alter(leader=1)
    made.hwm(0, 10, 12)
    made.follows(0, 12, after_ms=0)
    made.leads(1, 11, 10)
    assert made.properties() == [LOST, ELECTABLE]


def test_a_log_that_is_loaded_in_the_ms_in_which_its_leader_starts(made: Made) -> None:
    made.restarted(0, 10)
    made.leads(0, 10, 10, after_ms=0)
    made.hwm(0, 10, 12)
    elect(made, 1, 11, 10)
    assert lost(made.findings()[0]) == (11, 12)


@pytest.mark.parametrize(("lines", "expected"), [(0, [LOST, READ]), (1, [LOST, READ]), (2, [])])
def test_hwm_moves_count_if_their_tenure_is_known(made: Made, lines: int, expected: list[str]) -> None:
    """A broker logs a metadata replay in one file and its new role in another. Here the other file ends early."""
    made.alter(isr=(0, 1))
    made.still(0, "leader", 10)
    for _ in range(lines):
        made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    made.follows(0, 15)
    assert made.properties() == expected


def test_hwm_moves_after_the_last_known_role_change_do_not_count(made: Made) -> None:
    made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    assert made.findings() == []


def test_a_leader_that_restarts_with_less_cuts_its_followers(made: Made) -> None:
    """The LEO 10 that broker 0 recorded before is no bound for the end of broker 1's log."""
    made.restarted(0, 9)
    made.leads(0, 9, 9)
    made.follows(1, 10)
    made.truncating(1, 0, 9)
    found = made.watermarks()
    found.finish({"t1-0": 2})
    ends = {end.broker: (end.leo, end.at_least) for end in found.ends["t1-0"]}
    assert ends == {0: (9, True), 1: (9, True), 2: (10, True)}


def test_an_end_is_exact_while_there_is_no_leader(made: Made) -> None:
    """Broker 1 logs nothing of the later leader: it may have followed that leader since."""

    def ends() -> dict[int, tuple[int, bool]]:
        found = made.watermarks()
        found.finish({"t1-0": 2})
        return {end.broker: (end.leo, end.at_least) for end in found.ends["t1-0"]}

    made.alter(leader=None)
    made.follows(1, 12)
    assert ends()[1] == (12, False)
    made.alter(leader=0)
    assert ends()[1] == (12, True)
    made.leads(0, 12, 12)
    made.shrinking(0, "0,1,2", "0,2", 14, 20, 1, 15)
    assert ends() == {0: (20, True), 1: (15, True), 2: (10, True)}, "the leader logs both ends"
    elect(made, 2, 10, 10, isr=(2,))
    assert lost(made.findings()[0]) == (10, 14)


def test_logs_by_epoch() -> None:
    log = extend(extend((), 0, 0), 3, 10)
    assert cut(log, 10) == ((0, 0),)
    assert first_difference(log, extend(log, 5, 8), 20) == 8
    assert first_difference(log, extend(log, 5, 30), 20) == 20
    assert first_difference(log, None, 20) == 20
    assert first_difference(((7, 100),), ((1, 0),), 90) == 90, (
        "what is older than the log tells is no difference"
    )
