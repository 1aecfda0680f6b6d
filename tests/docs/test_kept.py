"""A cached result answers exactly one search: any change of its model or options starts a new search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from docs.pages import galleries, kept
from docs.pages.kept import Answers, Mode, NotKeptError
from highwater.checker.scenarios.request import Overrides, Request

NAME, PLACE = "defect-stop-replica", galleries.ZOOKEEPER.place


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """The committed results; a missing one raises an error."""
    found = Answers(dict(kept.ANSWERS.kept), Mode.ONLY_KEPT)
    monkeypatch.setattr(kept, "ANSWERS", found)
    return found


def asked(**parameters: int) -> Any:
    scenario, model, options = galleries.asked(NAME, PLACE)
    if parameters:
        model = Request.of(scenario, Overrides(parameters)).model()
    return kept.search(model, options)


def test_another_parameter_or_option_is_another_question() -> None:
    _, model, options = galleries.asked(NAME, PLACE)
    with pytest.raises(NotKeptError, match="no cached answer, or the model has changed: search: zookeeper"):
        asked(bounces=2)
    with pytest.raises(NotKeptError):
        kept.search(model, replace(options, limit_states=10))


def test_the_committed_file_is_written_again(answers: Answers) -> None:
    assert len(answers.kept) > 1
    assert answers.text() == kept.FILE.read_text()
