"""The conditions in docs/explore.md are valid, and its example is true."""

from __future__ import annotations

import doctest
import re

from highwater.checker.explore.condition import condition
from highwater.checker.scenarios.request import asked
from tests.checker.conftest import ROOT

PAGE = (ROOT / "docs" / "explore.md").read_text(encoding="utf-8")


def test_conditions_of_the_page_are_valid() -> None:
    model = asked("replication/large-fencing").model()
    (block,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    texts = block.splitlines()
    assert len(texts) > 5
    for text in texts:
        assert condition(model, text)


def test_its_example_is_true() -> None:
    (block,) = re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.M | re.S)
    examples = doctest.DocTestParser().get_doctest(block, {}, "explore", "explore.md", 0)
    failed, tried = doctest.DocTestRunner().run(examples)
    assert tried
    assert not failed
