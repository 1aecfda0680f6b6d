"""A session on a protocol whose steps can exceed bounds and violate a step property."""

from __future__ import annotations

from pathlib import Path as File

import pytest

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.explore.session import Answers, Path, Session, path_of
from highwater.checker.scenarios.request import asked
from highwater.traces.reading import Place
from highwater.traces.runs.format import StepLine

TEXT = '''
from highwater.language import *

@step_property("S")
def grows(m, before, after):
    """The count only grows."""
    return after.n >= before.n

class Counter(Protocol):
    """Counts to two, and back."""

    step_properties = (grows,)

    def define(self):
        return Struct("State", n=Int(0, 2, bound="n"))

    def initial(self):
        return [{}]

    @action(says="one more")
    def up(self, s):
        s.next.n = s.n + 1

    @action(says="one less")
    def down(self, s):
        require("there is one", s.n > 0)
        s.next.n = s.n - 1
'''


@pytest.fixture
def views(tmp_path: File) -> Answers:
    (tmp_path / "counter.py").write_text(TEXT)
    return Answers(asked(tmp_path / "counter.py"))


@pytest.fixture
def session(views: Answers) -> Session:
    return views.session


def test_a_step_that_is_cut_leads_nowhere(session: Session) -> None:
    up = session.number("up", {})
    states = session.states(Path(0, (up, up)))
    assert session.choices.fates(states[-1])[up] < 0
    assert session.possible(states[-1]) == [session.number("down", {})]
    with pytest.raises(InputError, match=r"step 3: up\(\) is pruned at n"):
        session.states(Path(0, (up, up, up)))


def test_a_violated_step_property_is_reported_at_the_step_s_target(views: Answers, session: Session) -> None:
    up, down = session.number("up", {}), session.number("down", {})
    assert [session.broken(session.states(Path(0, steps))) for steps in ((), (up,), (up, down))] == [
        [],
        [],
        ["grows"],
    ]
    assert views.run({"path": f"0.{up}.{down}"})["violated"] == ["grows"]
    assert views.run({"path": f"0.{up}"})["violated"] == []


def test_a_name_that_fits_several_steps_is_refused(session: Session) -> None:
    several = highwater.explore("truncation/kip-101", parameters={"max_records": 1})
    with pytest.raises(InputError, match=r"stands for \d+ steps"):
        several.number("become_leader", {})
    with pytest.raises(InputError, match="stands for no step"):
        session.number("up", {"n": 1})


def test_a_run_from_a_later_initial_state_begins_there(tmp_path: File) -> None:
    text = TEXT.replace("return [{}]", 'return [{"n": 1}, {"n": 2}]')
    (tmp_path / "counter.py").write_text(text)
    session = Answers(asked(tmp_path / "counter.py")).session
    place = Place(tmp_path / "run", 2)
    for number, state in enumerate(session.model.initial):
        first = StepLine(0, state=session.model.decode(state), place=place)
        step = StepLine(1, "down", place=place)
        assert path_of(session, [first, step]) == Path(number, (session.number("down", {}),))
    wrong = StepLine(0, state={"n": 0}, place=place)
    with pytest.raises(InputError, match="no initial state of the model"):
        path_of(session, [wrong])
