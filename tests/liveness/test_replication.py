"""What must happen in replication does, and each assumption of fairness is needed for it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.docs import DOCS
from checker.docs.liveness import SCENARIOS, section
from invariants.replication import LIVENESS


@cache
def committed() -> str:
    return (DOCS / "liveness.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["replication/live-zombie", pytest.param("replication/live-crash", marks=pytest.mark.slow)]
)
def test_what_the_page_says_of_a_scenario_is_up_to_date(name):
    """The other ones take longer; the page's own test looks at all."""
    assert "\n".join(section(name)) in committed()


def test_every_assumption_is_needed_in_some_scenario():
    """Each row of the page comes from a run that the interpreter has confirmed."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\d+) \| \d+ \|$", committed(), re.M)
    needed = {(name, fairness) for name, fairness, _ in rows}
    assert needed == {(p.name, str(f)) for p in LIVENESS for f in p.fair}


def test_every_scenario_of_liveness_is_on_the_page():
    assert re.findall(r"^### (live-.*)$", committed(), re.M) == [n.partition("/")[2] for n in SCENARIOS]
