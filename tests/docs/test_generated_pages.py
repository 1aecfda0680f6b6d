"""The committed pages are what the model and the engines say today."""

from __future__ import annotations

import re

import pytest

from checker import docs
from model.truncation import Truncation


@pytest.mark.parametrize("name", docs.PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (docs.DOCS / name).read_text(encoding="utf-8") == docs.PAGES[name]()


def test_every_rule_but_two_has_an_effect_on_safety() -> None:
    """Read off the committed table: a rule without effect would be a switch that does nothing."""
    text = (docs.DOCS / "truncation-rules.md").read_text(encoding="utf-8")
    section = text.split("## `kip_320`")[1].split("\n## ")[0]
    depths = {
        rule: (weak, strong)
        for rule, weak, strong in re.findall(r"\| `(\w+)` off \|[^|]*\| (\S+) \| (\S+) \|", section)
    }
    assert set(depths) == set(Truncation.profiles["kip_320"].rules)
    assert {rule for rule, found in depths.items() if found == ("–", "–")} == {"fenced_shrink"}
    assert "| all on | nothing | – | – |" in section
