"""Feature levels are read in one way only: a second way could ignore a level."""

from __future__ import annotations

import pytest

from highwater.model.language import LanguageError
from highwater.model.replication import Replication, features
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.rules import ELR_FEATURE


@pytest.mark.parametrize("rule", sorted(features.RULES))
def test_on_refuses_a_rule_that_depends_on_features(rule: str) -> None:
    cluster = Replication({}, Replication.profiles["kip_966"].rules)
    controller = Controller({}, Controller.profiles["kafka_4_2"].rules)
    for on in (cluster.on, cluster.t.on, *([controller.t.on] if rule in ELR_FEATURE else [])):
        with pytest.raises(LanguageError, match="feature levels decide"):
            on(rule)
