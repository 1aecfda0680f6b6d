"""Which sets of rules are left, when one partition after the other is explained by some of them only."""

from __future__ import annotations

from highwater.traces.rules.profiles import Agreement, RuleSet

SETS = tuple(RuleSet(name, frozenset({name})) for name in "abc")


def settled(*tags: set[int]) -> tuple[str, list[tuple[list[str], list[str]]]]:
    """The profile that is chosen, and the profiles of both sides where no set explained all partitions."""
    agreement = Agreement(SETS)
    for offset, these in enumerate(tags):
        agreement.narrow(offset, f"t-{offset}", frozenset(these), 0)
    found = [(d.others, d.this) for d in agreement.settle(agreement.drain())]
    return agreement.chosen().profile, found


def test_the_likeliest_that_explains_all_is_chosen() -> None:
    assert settled() == ("a", [])
    assert settled({1, 2}) == ("b", [])
    assert settled({1, 2}, {0, 2}) == ("c", [])


def test_what_is_ruled_out_stays_ruled_out() -> None:
    assert settled({0, 1}, {1, 2}, {2}) == ("c", [(["b"], ["c"])])
    assert settled({0, 1}, {1, 2}, {0, 1}) == ("b", [])


def test_other_sets_begin_anew() -> None:
    agreement = Agreement(SETS)
    agreement.narrow(1, "t-0", frozenset({2}), 0)
    agreement.renew(SETS[:2])
    agreement.narrow(2, "t-0", frozenset({1}), 0)
    assert list(agreement.settle(agreement.drain())) == []
    assert agreement.chosen().profile == "b"
