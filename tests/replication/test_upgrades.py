"""Feature upgrades, downgrades, one older broker, and missing ELR members: each mistake is detected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model, Number, StructValue, as_bool
from highwater.model.replication import features
from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.types import ControllerContext
from highwater.model.replication.protocol import Replication

PLACE = "replication/"


def found(name: str, **changes: Any) -> SearchResult:
    """Search a scenario with these parameters, rules or properties changed."""
    scenario = scenario_files.find(PLACE + name)
    model = Request.of(scenario, Overrides(**changes)).model()
    return native.search(model, SearchOptions(workers=1))


def violated(name: str, **changes: Any) -> set[str]:
    return {v.property for v in found(name, **changes).violations}


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("upgrade-mixed-gate", "ungated_broker"),
        ("upgrade-mixed-old-fetcher", "old_fetcher"),
        ("upgrade-mixed-old-proposer", "old_proposer"),
    ],
)
def test_brokers_of_one_version_lose_nothing_within_the_same_budgets(name: str, older: str) -> None:
    assert violated(name) == Request.of(scenario_files.find(PLACE + name), Overrides()).expected
    result = found(name, parameters={older: -1}, properties=("invariants",))
    assert result.complete
    assert not result.violations


@pytest.mark.parametrize("older", ["ungated_broker", "old_fetcher", "old_proposer"])
def test_a_broker_that_is_not_there_is_older_in_nothing(older: str) -> None:
    """The parameter names a broker outside of the cluster, so no step changes."""
    plain = found("upgrade-mixed-gate", parameters={"ungated_broker": -1})
    beyond = found("upgrade-mixed-gate", parameters={"ungated_broker": -1, older: 2})
    assert (plain.distinct_states, plain.generated_states) == (
        beyond.distinct_states,
        beyond.generated_states,
    )


@pytest.mark.parametrize(
    ("ended", "off"),
    [
        (set(), frozenset()),
        ({"elr_flag"}, features.ELR_RULES),
        ({"elr_level"}, features.ELR_RULES | {"clean_registration"}),
        ({"recovery_flag"}, {"unclean_recovery"}),
        (
            {"elr_level", "elr_flag", "recovery_flag"},
            features.ELR_RULES | {"clean_registration", "unclean_recovery"},
        ),
    ],
)
def test_each_feature_ends_by_itself(ended: set[str], off: frozenset[str]) -> None:
    """966.18. The flag ends the ELR rules; the version also ends clean registrations."""
    parameters = {"brokers": 2, "recovery": 1, "downgrades": 1, "flag_changes": 1}
    m = Replication(parameters, Replication.profiles["kip_966"].rules)
    Model(m, [])
    names = ("elr_level", "elr_flag", "recovery_flag")
    s: Any = SimpleNamespace(**{name: as_bool(name not in ended) for name in names})
    on = [types.rules for holds, types in features.by_features(m, s) if holds._plain()][-1]
    assert m.t.rules - on == off & m.t.rules


def test_an_elr_that_is_off_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """966.18. Members of a leftover ELR soon lack records, which does no harm."""
    everything = ("electable_completeness", "elr_only_under_min_isr")
    assert not violated("upgrade-aborted", properties=everything)
    monkeypatch.setattr(features, "partition_as_read", lambda m, s: s.partition)
    assert violated("upgrade-aborted", properties=everything) == set(everything)


def test_after_a_crash_too_few_electable_members_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """966.6. One registration after an unclean shutdown excuses one missing member, not all."""
    bounds = {
        "initial_isr": 3, "min_isr": 3, "initial_records": 1, "crashes": 1, "fencings": 1, "max_broker_epoch": 1,
        "max_partition_epoch": 3, "controlled_shutdowns": 0, "max_leader_epoch": 1, "recovery": 0, "downgrades": 0,
        "upgrades": 0,
    }  # fmt: skip

    def empties_the_elr(now: ControllerContext, broker: Number) -> StructValue:
        concerned = (now.partition.isr | now.partition.elr).has(broker)
        return registrations._leaves(concerned, now, broker, now.t.brokers.of(lambda b: True))

    asked = {"parameters": bounds, "properties": ("enough_are_electable",)}
    assert not violated("recovery-downgrade", **asked)
    monkeypatch.setattr(registrations, "on_unclean_registration", empties_the_elr)
    assert violated("recovery-downgrade", **asked) == {"enough_are_electable"}
