"""An explorer session: typed conditions, paths, steps as the interpreter's, the nearest state, bounds."""

from __future__ import annotations

from collections import deque
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.explore.condition import LONGEST, condition, value
from highwater.checker.explore.session import LONGEST as LONGEST_PATH
from highwater.checker.explore.session import Answers, Path, Session, examples, path_of
from highwater.checker.scenarios.request import asked
from highwater.model.language import graph
from highwater.model.language.graph import compile_nodes
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import interpreter_of
from highwater.traces.reading import Place
from highwater.traces.runs.format import StepLine


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(asked("replication/defect-truncate-to-hwm").model())


@pytest.fixture(scope="module")
def states(session: Session) -> list[tuple[int, ...]]:
    return [state for seed in range(6) for state in session.states(session.walk(Path(), 25, seed))]


def plain(value: Any) -> Any:
    """A decoded state with its fields as attributes, as protocols see it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: plain(item) for name, item in value.items()})
    return [plain(item) for item in value] if isinstance(value, list) else value


MEANINGS = {
    "partition.leader is none": lambda s: s.partition.leader is None,
    "0 in partition.isr": lambda s: 0 in s.partition.isr,
    "0 not in partition.isr or not partition.elr.is_empty": lambda s: 0 not in s.partition.isr or bool(s.partition.elr),
    "partition.leader in [0, 2]": lambda s: s.partition.leader in (0, 2),
    "size(partition.isr) - 1 < partition.leader_epoch + 1 <= 2": lambda s: len(s.partition.isr) - 1
    < s.partition.leader_epoch + 1
    <= 2,
    "brokers[1].status != 'RUNNING'": lambda s: s.brokers[1].status != "RUNNING",
    "brokers[0].log.length == 1 and brokers[0].log[0].value == 0": lambda s: len(s.brokers[0].log) == 1,
    "any(brokers[b].hwm > 0 for b in broker)": lambda s: any(b.hwm > 0 for b in s.brokers),
    "all(b in partition.isr for b in broker if b != 0)": lambda s: all(b in s.partition.isr for b in (1, 2)),
    "count(registrations[b].fenced for b in broker) == 1": lambda s: sum(r.fenced for r in s.registrations) == 1,
    "count(brokers[b].log.length > brokers[c].hwm for b in broker for c in broker) >= 0": None,
    "fetch_requests[1].is_some and fetch_requests[1].value.offset == 1": lambda s: s.fetch_requests[1] is not None
    and s.fetch_requests[1].offset == 1,
    "(partition.isr | partition.elr) - [0] == [1, 2]": lambda s: sorted(
        {*s.partition.isr, *s.partition.elr} - {0}
    )
    == [1, 2],
}  # fmt: skip


NEVER_OTHERWISE = ("partition.leader is none", "brokers[1].status != 'RUNNING'")
"""The only conditions that are never true or never false in these states."""


@pytest.mark.parametrize("text", [t for t, meaning in MEANINGS.items() if meaning])
def test_a_condition_means_what_python_means(
    session: Session, states: list[tuple[int, ...]], text: str
) -> None:
    meaning = MEANINGS[text]
    assert meaning is not None
    ask = compile_nodes([condition(session.model, text)])
    said = [bool(ask(state)[0]) for state in states]
    assert said == [bool(meaning(plain(session.model.decode(state)))) for state in states]
    assert len(set(said)) == 2 or text in NEVER_OTHERWISE


def test_enabled_agrees_with_the_guards(session: Session, states: list[tuple[int, ...]]) -> None:
    ask = compile_nodes([condition(session.model, "enabled('send_fetch', f=1)")])
    number = session.number("send_fetch", {"f": 1})
    said = [bool(ask(state)[0]) for state in states]
    assert said == [
        not session.interpreter.refusals(state, session.model.instances[number]) for state in states
    ]
    assert len(set(said)) == 2


WRONG = {
    "": "is no condition",
    "partition": "is a value, not a condition",
    "partitoin.leader == 1": "did you mean 'partition'",
    "partition.leeder == 1": "there is no .leeder here",
    "partition.__class__ == 1": "there is no .__class__ here",
    "brokers[0].log.append(1) == 1": "is called",
    "__import__('os').system('true')": "is called",
    "(lambda: 1)()": "is called",
    "[x for x in broker] == 1": "has no meaning here",
    "brokers[0:1] == 1": "has no elements",
    "brokers[7].hwm > 0": "7 is not a value of Index(broker, 3)",
    "any(b > 0 for b in partition.isr)": "goes over one index",
    "any(b > 0 for b in broker for c in broker)": "goes over one index",
    "brokers[0].status == 'RUNING'": "'RUNING'",
    "brokers[0].hwm is 1": "compares with `is` what is not none",
    "1 in 2": "does not fit together",
    "2 ** 100 == 1": "is an operator that there is not",
    "enabled('nothing')": "has no action 'nothing'",
    "size(1, 2) == 1": "takes one argument",
    "(" * 400 + "1" + ")" * 400: "is no condition",
    "not " * 900 + "brokers[0].hwm > 0": "",
    "x" * (LONGEST + 1): "characters at most",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda t: t[:30])
def test_an_invalid_condition_gives_one_line(session: Session, text: str) -> None:
    with pytest.raises(InputError) as wrong:
        condition(session.model, text)
    assert WRONG[text] in str(wrong.value)
    assert len(str(wrong.value)) < 1200


def test_a_state_s_parts_can_be_read(session: Session) -> None:
    state = session.model.initial[0]
    assert session.said(state, "partition.isr") == "{0,1,2}"
    assert session.said(state, "partition.isr.is_empty") == "false"
    assert session.said(state, "size(partition.isr) + 1") == "4"
    with pytest.raises(InputError, match="reads nothing"):
        value(session.model, "[1, 2]")


PIECES = st.sampled_from(
    ["partition", ".leader", ".isr", " and ", " or ", "not ", "(", ")", "[", "]", "0", "1", " in ", " == ", " < ", "-",
     "any(", " for b in broker", "brokers[b]", ".hwm", "none", "'x'", "size(", ",", ".value", "*", "//0", "%",
     "lambda:", "\n", "\0", "é", "enabled("]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_random_text_is_a_condition_or_is_refused(session: Session, text: str) -> None:
    try:
        found = condition(session.model, text)
    except InputError:
        return
    assert found.sort == graph.BOOL


@pytest.mark.parametrize(
    "name", ["truncation/kip-101", "replication/defect-late-fetch", "docs/examples/register.toml"]
)
def test_example_conditions_of_the_page_are_valid(name: str) -> None:
    session = Session(asked(name).model())
    sought, watched = examples(session.model.protocol.state)
    assert sought
    assert watched.startswith("size(")
    assert session.said(session.model.initial[0], sought) in ("false", "true")
    assert session.said(session.model.initial[0], watched).isdecimal()


# --- sessions -----------------------------------------------------------------------------------------


def levels(views: Answers, start: Scalars) -> dict[Scalars, int]:
    """Each reachable state's distance from ``start``, by the interpreter."""
    counting, found, left = views.session, {start: 0}, deque([start])
    while left:
        state = left.popleft()
        for after in counting.interpreter.successors(state):
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
    counting = views.session
    state = counting.model.initial[0]
    refused = next(n for n, fate in enumerate(counting.choices.fates(state)) if fate > 0)
    guard = counting.interpreter.refusals(state, counting.model.instances[refused])[0]
    with pytest.raises(InputError, match=f"step 1: .* cannot be taken: '{guard}' does not hold"):
        counting.states(Path(0, (refused,)))
    with pytest.raises(InputError, match="there is no step 9999"):
        counting.states(Path(0, (9999,)))
    with pytest.raises(InputError, match="no initial state 5"):
        counting.states(Path(5))
    with pytest.raises(InputError, match="steps at most"):
        counting.states(Path(0, (0,) * (LONGEST_PATH + 1)))


def test_enabled_steps_are_the_interpreter_s(views: Answers) -> None:
    counting = views.session
    for state in counting.states(counting.walk(Path(), 30, 5)):
        steps = [s for s in counting.interpreter.steps(state) if s.state is not None]
        taken = [counting.model.instances[n] for n in counting.possible(state)]
        assert taken == [s.instance for s in steps]
        assert [counting.after(state, n) for n in counting.possible(state)] == [s.state for s in steps]


def test_a_walk_is_its_seed_s(views: Answers) -> None:
    counting = views.session
    assert counting.walk(Path(), 20, 1) == counting.walk(Path(), 20, 1)
    assert len({str(counting.walk(Path(), 20, seed)) for seed in range(5)}) >= 3
    assert counting.walk(Path(), 20, 1).steps[:4] == counting.walk(Path(), 4, 1).steps


def test_the_nearest_state_is_a_nearest_one(views: Answers) -> None:
    counting = views.session
    start = counting.walk(Path(), 1, 0)
    distance = levels(views, counting.states(start)[-1])
    texts = (
        "any(replicas[r].hwm > 0 for r in replica)",
        "logs[0].length > logs[1].length",
        "quorum.leader_epoch.value == 1 and size(quorum.isr) == 1",
        "quorum.leader_epoch.is_(0) and logs[1].length == 1",
        "quorum.leader_epoch.value > 5",
    )
    met = 0
    for text in texts:
        holds = compile_nodes([condition(counting.model, text)])
        wanted = [d for state, d in distance.items() if holds(state)[0]]
        path, result = counting.nearest(start, text)
        assert (path is None) == (not wanted), text
        if path is not None:
            met += 1
            assert path.steps[: len(start.steps)] == start.steps
            assert len(path.steps) - len(start.steps) == min(wanted)
            assert counting.said(counting.states(path)[-1], text) == "true"
        else:
            assert result.distinct_states == len(distance)
    assert met >= 3


def test_a_search_changes_nothing_of_the_model(views: Answers) -> None:
    model = views.session.model
    before = (model.initial, model.properties, model.liveness, model.start)
    views.session.nearest(views.session.walk(Path(), 3, 1), "next_record_id == 1")
    assert (model.initial, model.properties, model.liveness, model.start) == before


def test_a_search_does_not_end_at_a_step_that_violates_a_property() -> None:
    counting = Answers(asked("replication/controller/sanity-fenced-member-joins")).session
    path = counting.nearest(Path(), "partition.partition_epoch > 2")[0]
    assert path is not None
    assert counting.said(counting.states(path)[-1], "partition.partition_epoch > 2") == "true"


# --- steps that exceed bounds or violate a step property ----------------------------------------------


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
def counting(views: Answers) -> Session:
    return views.session


def test_a_step_that_is_cut_leads_nowhere(counting: Session) -> None:
    up = counting.number("up", {})
    states = counting.states(Path(0, (up, up)))
    assert counting.choices.fates(states[-1])[up] < 0
    assert counting.possible(states[-1]) == [counting.number("down", {})]
    with pytest.raises(InputError, match=r"step 3: up\(\) is pruned at n"):
        counting.states(Path(0, (up, up, up)))


def test_a_violated_step_property_is_reported_at_the_step_s_target(views: Answers, counting: Session) -> None:
    up, down = counting.number("up", {}), counting.number("down", {})
    assert [counting.broken(counting.states(Path(0, steps))) for steps in ((), (up,), (up, down))] == [
        [],
        [],
        ["grows"],
    ]
    assert views.run({"path": f"0.{up}.{down}"})["violated"] == ["grows"]
    assert views.run({"path": f"0.{up}"})["violated"] == []


def test_a_name_that_fits_several_steps_is_refused(counting: Session) -> None:
    several = highwater.explore("truncation/kip-101", parameters={"max_records": 1})
    with pytest.raises(InputError, match=r"stands for \d+ steps"):
        several.number("become_leader", {})
    with pytest.raises(InputError, match="stands for no step"):
        counting.number("up", {"n": 1})


def test_a_run_from_a_later_initial_state_begins_there(tmp_path: File) -> None:
    text = TEXT.replace("return [{}]", 'return [{"n": 1}, {"n": 2}]')
    (tmp_path / "counter.py").write_text(text)
    counting = Answers(asked(tmp_path / "counter.py")).session
    place = Place(tmp_path / "run", 2)
    for number, state in enumerate(counting.model.initial):
        first = StepLine(0, state=counting.model.decode(state), place=place)
        step = StepLine(1, "down", place=place)
        assert path_of(counting, [first, step]) == Path(number, (counting.number("down", {}),))
    wrong = StepLine(0, state={"n": 0}, place=place)
    with pytest.raises(InputError, match="no initial state of the model"):
        path_of(counting, [wrong])


def test_compiled_code_is_reused_by_the_next_request(views: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    first = views.run({"path": "0"})
    assert views.run({"path": "0"}) == first  # the second request uses compiled code

    def compiled_again(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("highwater.model.language.interpreter.compile_nodes", compiled_again)
    assert views.session.interpreter is interpreter_of(views.session.model)
    assert views.run({"path": "0"}) == first
