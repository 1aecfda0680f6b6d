"""Rules that feature levels decide about are asked in one way: a second way would answer for one level only."""

from __future__ import annotations

import pytest

from highwater.model.language import LanguageError
from highwater.model.replication import Replication, features
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.rules import ELR_FEATURE


@pytest.mark.parametrize("rule", sorted(features.RULES))
def test_a_cluster_refuses_to_say_whether_such_a_rule_is_on(rule: str) -> None:
    cluster = Replication({}, Replication.profiles["kip_966"].rules)
    for ask in (cluster.on, cluster.t.on):
        with pytest.raises(LanguageError, match="feature levels decide"):
            ask(rule)


@pytest.mark.parametrize("rule", sorted(ELR_FEATURE))
def test_the_controller_refuses_it_too(rule: str) -> None:
    controller = Controller({}, Controller.profiles["kafka_4_2"].rules)
    with pytest.raises(LanguageError, match="feature levels decide"):
        controller.t.on(rule)
