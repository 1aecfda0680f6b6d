"""An explorer session: paths, steps as the interpreter's, bounds, step properties, and the nearest state."""

from __future__ import annotations

from collections import deque
from pathlib import Path as File

import pytest

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.explore.condition import condition
from highwater.checker.explore.session import LONGEST, Answers, Path, Session, path_of
from highwater.checker.scenarios.request import asked
from highwater.model.language.graph import compile_nodes
from highwater.model.language.initial import Scalars
from highwater.traces.reading import Place
from highwater.traces.runs.format import StepLine


def levels(views: Answers, start: Scalars) -> dict[Scalars, int]:
    """Each reachable state's distance from ``start``, by the interpreter."""
    session, found, left = views.session, {start: 0}, deque([start])
    while left:
        state = left.popleft()
        for after in session.interpreter.successors(state):
            if after not in found:
                found[after] = found[state] + 1
                left.append(after)
    return found


def test_an_address_restores_the_path() -> None:
    for path in (Path(), Path(3), Path(0, (1, 2, 300))):
        assert Path.parse(str(path)) == path
    for text in ("", "a", "0..1", "-1", "0.1e3", "٣", "0.99999999999", "0." * 9000):
        with pytest.raises(InputError, match="no address"):
            Path.parse(text)


def test_a_path_that_cannot_be_gone_is_refused_with_the_guard(views: Answers) -> None:
    session = views.session
    state = session.model.initial[0]
    refused = next(n for n, fate in enumerate(session.choices.fates(state)) if fate > 0)
    guard = session.interpreter.refusals(state, session.model.instances[refused])[0]
    with pytest.raises(InputError, match=f"step 1: .* cannot be taken: '{guard}' does not hold"):
        session.states(Path(0, (refused,)))
    with pytest.raises(InputError, match="there is no step 9999"):
        session.states(Path(0, (9999,)))
    with pytest.raises(InputError, match="no initial state 5"):
        session.states(Path(5))
    with pytest.raises(InputError, match="steps at most"):
        session.states(Path(0, (0,) * (LONGEST + 1)))


def test_enabled_steps_are_the_interpreter_s(views: Answers) -> None:
    session = views.session
    for state in session.states(session.walk(Path(), 30, 5)):
        steps = [s for s in session.interpreter.steps(state) if s.state is not None]
        taken = [session.model.instances[n] for n in session.possible(state)]
        assert taken == [s.instance for s in steps]
        assert [session.after(state, n) for n in session.possible(state)] == [s.state for s in steps]


def test_a_walk_is_its_seed_s(views: Answers) -> None:
    session = views.session
    assert session.walk(Path(), 20, 1) == session.walk(Path(), 20, 1)
    assert len({str(session.walk(Path(), 20, seed)) for seed in range(5)}) >= 3
    assert session.walk(Path(), 20, 1).steps[:4] == session.walk(Path(), 4, 1).steps


def test_the_nearest_state_is_a_nearest_one(views: Answers) -> None:
    session = views.session
    start = session.walk(Path(), 1, 0)
    distance = levels(views, session.states(start)[-1])
    texts = (
        "any(replicas[r].hwm > 0 for r in replica)",
        "logs[0].length > logs[1].length",
        "quorum.leader_epoch.value == 1 and size(quorum.isr) == 1",
        "quorum.leader_epoch.is_(0) and logs[1].length == 1",
        "quorum.leader_epoch.value > 5",
    )
    met = 0
    for text in texts:
        holds = compile_nodes([condition(session.model, text)])
        wanted = [d for state, d in distance.items() if holds(state)[0]]
        path, result = session.nearest(start, text)
        assert (path is None) == (not wanted), text
        if path is not None:
            met += 1
            assert path.steps[: len(start.steps)] == start.steps
            assert len(path.steps) - len(start.steps) == min(wanted)
            assert session.said(session.states(path)[-1], text) == "true"
        else:
            assert result.distinct_states == len(distance)
    assert met >= 3


def test_a_search_does_not_end_at_a_step_that_violates_a_property() -> None:
    session = Answers(asked("replication/controller/sanity-fenced-member-joins")).session
    path = session.nearest(Path(), "partition.partition_epoch > 2")[0]
    assert path is not None
    assert session.said(session.states(path)[-1], "partition.partition_epoch > 2") == "true"


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
def counter(tmp_path: File) -> Answers:
    (tmp_path / "counter.py").write_text(TEXT)
    return Answers(asked(tmp_path / "counter.py"))


@pytest.fixture
def session(counter: Answers) -> Session:
    return counter.session


def test_a_step_that_is_cut_leads_nowhere(session: Session) -> None:
    up = session.number("up", {})
    states = session.states(Path(0, (up, up)))
    assert session.choices.fates(states[-1])[up] < 0
    assert session.possible(states[-1]) == [session.number("down", {})]
    with pytest.raises(InputError, match=r"step 3: up\(\) is pruned at n"):
        session.states(Path(0, (up, up, up)))


def test_a_violated_step_property_is_reported_at_the_step_s_target(
    counter: Answers, session: Session
) -> None:
    up, down = session.number("up", {}), session.number("down", {})
    assert [session.broken(session.states(Path(0, steps))) for steps in ((), (up,), (up, down))] == [
        [],
        [],
        ["grows"],
    ]
    assert counter.run({"path": f"0.{up}.{down}"})["violated"] == ["grows"]
    assert counter.run({"path": f"0.{up}"})["violated"] == []


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
