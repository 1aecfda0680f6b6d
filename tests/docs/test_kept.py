"""A cached result answers exactly one search: any change of its model or options starts a new search."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from docs.pages import galleries, kept
from docs.pages.kept import Answers, Mode, NotKeptError
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.replication import control

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


def test_a_cached_search_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "searched", None)
    assert {v.property for v in asked().violations} == scenario_files.find(PLACE + NAME).expectation.violated


def test_another_parameter_or_option_is_another_question() -> None:
    _, model, options = galleries.asked(NAME, PLACE)
    with pytest.raises(NotKeptError, match="no cached answer, or the model has changed: search: zookeeper"):
        asked(bounces=2)
    with pytest.raises(NotKeptError):
        kept.search(model, replace(options, limit_states=10))


def test_a_changed_rule_of_the_model_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the AlterPartition response carries another leader epoch."""
    find = inspect.unwrap(galleries.find)
    assert find("stale-partition-epoch").examples
    right = control.answer_to

    def planted(m: Any, sent: Any, error: Any, partition: Any) -> Any:
        return right(m, sent, error, partition.replace(leader_epoch=sent.leader_epoch))

    monkeypatch.setattr(control, "answer_to", planted)
    monkeypatch.setattr("docs.pages.kept._TRACED", {})
    with pytest.raises(NotKeptError):
        find("stale-partition-epoch")


def test_a_result_that_changes_when_repeated_is_reported(answers: Answers) -> None:
    answers.mode = Mode.AFRESH
    asked()
    (key,) = answers.new
    answers.new.clear()
    text, said = answers.kept[key]
    assert asked().distinct_states == said["distinct_states"]
    assert answers.changed == []
    answers.kept[key] = text, {**said, "distinct_states": said["distinct_states"] + 1}
    assert answers.changed == [text]


def test_the_committed_file_is_written_again(answers: Answers) -> None:
    assert len(answers.kept) > 1
    assert answers.text() == kept.FILE.read_text()
