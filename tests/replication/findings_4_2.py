"""The findings in Kafka 4.2.1, and searches of their scenarios."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from docs.pages.markdown import FOLDER
from highwater.checker.engines.liveness import search_with_liveness
from highwater.checker.engines.native import search
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult

PLACE = "replication/controller/kafka-4.2-"
FINDINGS: dict[str, dict[str, Any]] = {
    finding["name"]: finding for finding in tomllib.loads((FOLDER / "kafka.toml").read_text())["finding"]
}
"""The findings by name, in the order of the page."""


def full_name(name: str) -> str:
    """The scenario of a finding: ``scenario`` of its entry in kafka.toml, or else its name after ``PLACE``."""
    found: str = FINDINGS[name].get("scenario", PLACE + name)
    return found


def searched(name: str, rules: Mapping[str, bool] | None = None) -> SearchResult:
    """The result of a finding's scenario, with ``rules`` switched on (True) or off (False)."""
    model = asked(full_name(name), rules=rules or {}).model()
    return search_with_liveness(model, search, explore, SearchOptions(workers=1))
