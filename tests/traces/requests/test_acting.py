"""The model's actions on states whose offsets are replaced by ranks."""

from __future__ import annotations

import random
from typing import cast

import pytest

from highwater.traces.messages.leaders import UNHEARD, Leadership, Leading, Stage, acting
from highwater.traces.reports.observed import PartitionChange


@pytest.mark.parametrize("seed", range(12))
def test_the_hwm_of_an_answer_is_the_leaders_advanced_hwm(seed: int) -> None:
    """B4: ``answer_fetch`` leaves the leader's ``advanced_hwm``, computed with the fetch's offset."""
    chosen, model = random.Random(seed), acting(4, "kafka_4_2")
    isr = 1 | chosen.randrange(8) << 1
    leos = (UNHEARD, *(chosen.randrange(-1, 6) for _ in range(3)))
    leading = Leading(
        isr, chosen.choice((-1, isr | 8)), 15, chosen.randrange(1, 4), leos, chosen.randrange(3), 6
    )
    f, offset = chosen.randrange(1, 4), chosen.randrange(6)
    noted = tuple(offset if slot == f else leo for slot, leo in enumerate(leos))
    assert model.answered(leading, f, offset, offset > 0).hwm == model.settled(leading._replace(leos=noted))


@pytest.mark.parametrize("seed", range(8))
def test_only_the_order_of_offsets_counts(seed: int) -> None:
    """Spreading the offsets in the same order gives the HWM of the same rank."""
    chosen, model = random.Random(seed), acting(4, "kafka_4_2")
    ranks = [chosen.randrange(4) for _ in range(4)]
    apart = sorted(chosen.sample(range(11), 5))
    leading = Leading(chosen.choice((3, 7, 15)), -1, 15, 2, (UNHEARD, *ranks[:3]), 0, 4)
    moved = leading._replace(leos=(UNHEARD, *(apart[r] for r in ranks[:3])), hwm=apart[0], end=apart[4])
    assert model.settled(moved) == apart[model.settled(leading)]


def test_the_hwm_grows_with_followers_and_falls_with_a_larger_isr() -> None:
    """The HWM bounds rely on this monotonicity."""
    model, patient = acting(4, "kafka_4_2"), acting(4, "kafka_4_2", patient=True)
    chosen = random.Random(1)
    for _ in range(60):
        isr = 1 | chosen.randrange(8) << 1
        leos = (UNHEARD, *(chosen.randrange(-1, 6) for _ in range(3)))
        leading = Leading(isr, -1, 15, 1, leos, 0, 6)
        further = leading._replace(leos=tuple(min(6, leo + chosen.randrange(2)) for leo in leos))
        assert model.settled(further) >= model.settled(leading)
        assert model.settled(leading._replace(proposed=15)) <= model.settled(leading)
        assert patient.settled(leading) <= model.settled(leading)


def test_another_epoch_or_incarnation_of_a_fetch_is_refused() -> None:
    model = acting(4, "kafka_4_2")
    leading = Leading(3, -1, 3, 1, (UNHEARD,) * 4, 0, 2)
    epoch, incarnation = "the fetch is in the leader's epoch", "no newer incarnation of the sender is known"
    assert model.answered(leading, 1, 1, True, fetch_epoch=0).refused_by == (epoch,)
    assert model.answered(leading, 1, 1, True, stale=True).refused_by == (incarnation,)
    assert [model.refuses(True, 1, stale) for stale in (False, True)] == [False, True]


@pytest.mark.parametrize(
    ("certain", "offset", "expected"), [({}, 0, 0), ({}, 1, 1), ({1: 1}, 0, 1), ({1: 0}, 2, 2)]
)
def test_the_least_hwm_is_the_certain_offset_of_the_isr(
    certain: dict[int, int], offset: int, expected: int
) -> None:
    """B4: a follower that fetches from offset 0 has no records yet; a certain offset stays certain."""
    both = Stage(cast(PartitionChange, None), None, 0.0, bits=(3, -1, 3, 1))
    model, patient = acting(4, "kafka_4_2"), acting(4, "kafka_4_2", patient=True)
    led = Leadership(0, "t-0", 1, [both], model, patient, {0: 0, 1: 1}, is_whole=True, certain=certain)
    led.least_end = 3
    assert led.least_after(1, offset, since=0.0) == expected
