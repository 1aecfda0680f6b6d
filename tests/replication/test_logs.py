"""B3, divergence and truncation, on realistic logs: a follower keeps exactly the common prefix."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model.language import Index, Int, LanguageError, Option, Seq, Struct
from highwater.model.language.function import Function
from highwater.model.replication import features, logs
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.rules import ELR_FEATURE
from highwater.model.replication.protocol import Replication

SIZE = 6
EPOCH = Int(0, 7)
RECORD = Struct("Record", value=Index("value", 64), epoch=EPOCH)
LOG = Seq(RECORD, SIZE)
OFFSET = Int(0, SIZE)

diverges = Function(logs.diverges, log=LOG, fetch_offset=OFFSET, last_fetched_epoch=Option(EPOCH))
end_offset = Function(logs.end_offset_for_epoch, log=LOG, epoch=EPOCH)
truncation = Function(logs.truncation_offset, log=LOG, diverging_epoch=Option(EPOCH), diverging_end=OFFSET)
Log = list[dict[str, Any]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, Log]:
    """Two logs of one partition: each leader epoch starts from a prefix of an older log and appends."""
    found: list[Log] = [[]]
    value = 0
    for epoch in range(draw(st.integers(1, 7))):
        older = draw(st.sampled_from(found))
        log = older[: draw(st.integers(0, len(older)))]
        for _ in range(draw(st.integers(0, SIZE - len(log)))):
            log = [*log, {"value": value, "epoch": epoch}]
            value += 1
        found.append(log)
        # Replicas of this epoch can stop anywhere on the way.
        found.append(log[: draw(st.integers(0, len(log)))])
    return draw(st.sampled_from(found)), draw(st.sampled_from(found))


def shared(first: Log, second: Log) -> int:
    """The length of two logs' common prefix."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


@given(histories())
def test_a_follower_ends_with_a_prefix_of_the_leaders_log(pair: tuple[Log, Log]) -> None:
    leader, follower = pair
    common = shared(leader, follower)
    for _ in range(8):
        last = follower[-1]["epoch"] if follower else None
        if not diverges(log=leader, fetch_offset=len(follower), last_fetched_epoch=last):
            break
        end = end_offset(log=leader, epoch=last)
        epoch = leader[end - 1]["epoch"] if end else None
        kept = truncation(log=follower, diverging_epoch=epoch, diverging_end=end)
        assert kept < len(follower), "a diverging answer takes something away"
        assert kept >= common, "but nothing that both logs share"
        follower = follower[:kept]
    else:
        raise AssertionError("the follower never stopped truncating")
    assert len(follower) == common
    assert follower == leader[:common]


# --- feature levels are read in one way only ----------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(features.RULES))
def test_on_refuses_a_rule_that_depends_on_features(rule: str) -> None:
    cluster = Replication({}, Replication.profiles["kip_966"].rules)
    controller = Controller({}, Controller.profiles["kafka_4_2"].rules)
    for on in (cluster.on, cluster.t.on, *([controller.t.on] if rule in ELR_FEATURE else [])):
        with pytest.raises(LanguageError, match="feature levels decide"):
            on(rule)
