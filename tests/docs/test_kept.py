"""A cached result answers exactly one search: any change of its model or options starts a new search."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from docs.pages import galleries, kept
from docs.pages.kept import Answers, Mode, NotKeptError
from highwater.checker.report.counterexample import BrokenRunError
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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_of_several_workers_is_not_kept(workers: int) -> None:
    """With several workers, the choice among equally short runs differs between searches."""
    _, model, options = galleries.asked(NAME, PLACE)
    with pytest.raises(ValueError, match="several workers"):
        kept.search(model, replace(options, workers=workers))


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


def key_of_asked(answers: Answers) -> str:
    """The key of ``asked()``, by a new search. Afterwards ``asked()`` searches again."""
    answers.mode = Mode.AFRESH
    asked()
    (key,) = answers.new
    answers.new.clear()
    return key


def test_an_invalid_cached_run_is_refused(answers: Answers) -> None:
    key, answers.mode = key_of_asked(answers), Mode.ONLY_KEPT
    text, said = answers.kept[key]
    name, initial, path = said["violations"][0]
    answers.kept[key] = text, {**said, "violations": [[name, initial, path[::-1]]]}
    with pytest.raises(BrokenRunError):
        inspect.unwrap(galleries.find)(NAME, PLACE)


def test_a_result_that_changes_when_repeated_is_reported(answers: Answers) -> None:
    key = key_of_asked(answers)
    text, said = answers.kept[key]
    assert asked().distinct_states == said["distinct_states"]
    assert answers.changed == []
    answers.kept[key] = text, {**said, "distinct_states": said["distinct_states"] + 1}
    assert answers.changed == [text]


def test_the_committed_file_is_written_again(answers: Answers) -> None:
    assert len(answers.kept) > 1
    assert answers.text() == kept.FILE.read_text(encoding="utf-8")


def test_a_sample_repeats_the_same_searches_each_time() -> None:
    """A missing result is always searched."""
    sampled = Answers(dict.fromkeys(("0c", "0d", "0e", "0f", "10"), ("what", "old")), Mode.SAMPLED)
    for _ in range(2):
        said = [sampled.to(key, "what", lambda: "new") for key in (*sampled.kept, "11")]
        assert said == ["new", "old", "old", "old", "new", "new"]
    assert sampled.changed == ["what", "what"]
