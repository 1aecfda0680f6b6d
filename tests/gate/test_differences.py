"""Differences between two revisions of a protocol agree with the interpreter on every state."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.checker.comparing.differences import Comparison, compare, lines
from highwater.checker.comparing.gate.entries import GateEntry, rules_on_nowhere
from highwater.checker.comparing.image import image
from highwater.checker.comparing.revisions import RestoredModel
from highwater.checker.engines.solver.difference import (
    Pair,
    Union,
    Witness,
    instances_of_both,
    nearest_witness,
)
from highwater.checker.engines.solver.terms import Limits
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.model_key import Fingerprints, by_action
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    graph,
    require,
)
from highwater.model.language.graph import BITS, BOOL, INT
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, compile_nodes, interpreter_of
from tests.liveness.test_liveness import Election
from tests.slow import slow


def compared(
    name: str, *rules: str, settings: tuple[str, ...] = (), limit_states: int = 100_000
) -> tuple[Comparison, Model, Model]:
    before = Request.of(scenario_files.find(name), Overrides.parse(settings))
    after = Request.of(scenario_files.find(name), Overrides.parse(settings, rules))
    old, new = before.model(), after.model()
    plain = json.loads(json.dumps(image(old, before)))
    return compare(name, plain, new, after, limit_states=limit_states), old, new


SMALL = ("max_records=1", "log_size=1")


@pytest.mark.parametrize(
    ("name", "rule", "settings"),
    [
        pytest.param(
            "replication/defect-fenced-leader",
            "ineligible_replica_check",
            (),
            marks=slow("steps of 8,000 states of replication; fast for truncation"),
        ),
        ("truncation/kip-320", "join_at_epoch_start", SMALL),
    ],
)
def test_counts_and_runs_are_those_of_the_interpreter(
    name: str, rule: str, settings: tuple[str, ...]
) -> None:
    """The counts equal those from each revision's interpreter, over states that both reach."""
    found, old, new = compared(name, f"{rule}=off", settings=settings)
    before, after = reached(old), reached(new)
    both = before.keys() & after.keys()
    assert found.whole
    assert found.states == len(both)
    assert (found.new_states, found.lost_states) == (len(after) - len(both), len(before) - len(both))
    assert found.to_new is not None
    assert len(found.to_new.steps) == min(after[s] for s in after.keys() - before.keys())
    expected: dict[str, list[int]] = {}
    for state in both:
        was, now = steps(old, state), steps(new, state)
        for key in was.keys() | now.keys():
            counts = expected.setdefault(key[0], [0, 0, 0])
            counts[0] += key not in was
            counts[1] += key not in now
            counts[2] += key in was and key in now and was[key] != now[key]
    assert {a.action: [a.gained, a.lost, a.otherwise] for a in found.actions if not a.same_so_far} == {
        n: c for n, c in expected.items() if any(c)
    }
    told = "\n".join(lines(found))
    assert f"rule {rule}: on → off" in told
    assert "states are reached now, not before" in told


def test_an_incomplete_comparison_reports_its_depth() -> None:
    found, old, new = compared(
        "truncation/kip-320", "join_at_epoch_start=off", settings=SMALL, limit_states=3_000
    )
    assert not found.whole
    before, after = reached(old), reached(new)
    new_so_deep = [s for s in after.keys() - before.keys() if after[s] <= found.depth]
    assert found.new_states == len(new_so_deep) > 0
    assert f"within depth {found.depth}" in "\n".join(lines(found))


def test_states_of_other_fields_are_not_compared() -> None:
    before = Request.of(scenario_files.find("truncation/kip-320"), Overrides())
    after = Request.of(scenario_files.find("truncation/kip-320"), Overrides.parse(("max_records=1",)))
    plain: dict[str, Any] = json.loads(json.dumps(image(before.model(), before)))
    found = compare("x", plain, after.model(), after)
    assert found.states is None
    assert found.fields
    told = "\n".join(lines(found))
    assert "parameter max_records: 2 → 1" in told
    assert "the states cannot be compared" in told


class _Pair(Protocol):
    name = "pair"

    def define(self) -> Struct:
        return Struct("State", low=Int(0, 3), high=Int(0, 5))

    def initial(self) -> list[dict[str, object]]:
        return [{"low": 0, "high": 1}]

    @action()
    def raise_low(self, s: State) -> None:
        require("below high", (s.low < s.high) & (s.low < 3))
        s.next.low = s.low + 1

    @action()
    def raise_high(self, s: State) -> None:
        require("below the top", s.high < 5)
        s.next.high = s.high + 1


class _Moved(_Pair):
    def define(self) -> Struct:
        return Struct("State", high=Int(0, 5), low=Int(0, 3))


class _MovedAndFaster(_Moved):
    @action()
    def raise_high(self, s: State) -> None:
        require("below the top", s.high < 4)
        s.next.high = s.high + 2


def asked(protocol: type[Protocol]) -> Any:
    scenario = SimpleNamespace(protocol=protocol)
    return SimpleNamespace(scenario=scenario, parameters={}, rules={}, symmetry=False, deadlock=False)


def test_fields_that_moved_are_the_same_fields() -> None:
    before = image(Model(_Pair()), asked(_Pair))
    moved = compare("x", before, Model(_Moved()), asked(_Moved))
    assert moved.reordered
    assert moved.same_graph
    assert moved.actions == []
    faster = compare("x", before, Model(_MovedAndFaster()), asked(_MovedAndFaster))
    assert faster.reordered
    assert [a.action for a in faster.actions] == ["raise_high"]
    assert faster.states == len(
        reached(Model(_Pair())).keys() & {s[::-1] for s in reached(Model(_MovedAndFaster()))}
    )
    assert "leads elsewhere" in "\n".join(lines(faster))


# --- the solver finds a state in which two protocols differ although the scenario never reaches it ----


LEADER = "replication/defect-fenced-leader"


def changed(rule: str) -> tuple[Model, Model, list[Pair]]:
    """Both models, with and without the rule, and the instances of the rule's action in both."""
    scenario = scenario_files.find(LEADER)
    old, new = (Request.of(scenario, Overrides.parse([], off)).model() for off in ([], [f"{rule}=off"]))
    action = "handle_alter_partition"
    return old, new, instances_of_both(by_action(old)[action], by_action(new)[action])


def witness(old: Model, new: Model, pairs: list[Pair], seconds: float = 60.0) -> Witness | None:
    return nearest_witness(Union.of(old, new), (old, new), pairs, Limits(seconds))


def test_the_interpreter_steps_differently_from_the_found_state_and_no_run_reaches_it() -> None:
    old, new, pairs = changed("leader_epoch_check")
    found = witness(old, new, pairs)
    assert found is not None
    assert not Interpreter(old).violated(found.before)
    outcomes = [
        Interpreter(m).step(found.before, m.instances.index(step)).state
        for m, step in zip((old, new), found.pair, strict=True)
        if step is not None
    ]
    assert outcomes[0] != outcomes[1]
    assert outcomes == [found.first, found.second]
    assert found.before not in reached(new)


def test_an_incomplete_search_looks_for_no_unreached_state() -> None:
    """In an incomplete search, a run could still reach the state."""
    found, _, _ = compared(LEADER, "sender_epoch_check=off", limit_states=500)
    assert not found.whole
    assert [(c.same_so_far, c.unreached, c.beyond) for c in found.actions] == [(True, [], "")]


RULES = """
from highwater.model.language import Int, Profile, Protocol, Rule, State, Struct, action, require

class Tap(Protocol):
    name = "tap"
    rules = {r: Rule(f"T{n}", f"Rule {r}.") for n, r in enumerate(("in_profile", "switched", "forgotten", "lost"), 1)}
    profiles = {"used": Profile.of("One.", "in_profile")}

    def define(self):
        self.state = Struct("Tap", level=Int(0, 3))

    @action("T0")
    def fill(self, s: State):
        require("there is room", s.level < 3)
        s.level = s.level + 1
"""


def test_rules_that_no_profile_has_and_no_scenario_switches_on_are_listed(tmp_path: Path) -> None:
    (tmp_path / "tap.py").write_text(RULES)
    toml = 'title = "Tap"\nprotocol = "tap.py"\nprofile = "used"\n'
    (tmp_path / "one.toml").write_text(toml)
    (tmp_path / "two.toml").write_text(f"{toml}[rules]\nswitched = true\n")
    entries = [GateEntry.of_scenario(name, tmp_path) for name in ("one.toml", "two.toml")]
    said = "tap: on in no profile and in nothing that is run here: "
    assert rules_on_nowhere(entries) == [f"{said}forgotten (T3), lost (T4)"]
    assert rules_on_nowhere(entries[:1]) == [f"{said}switched (T2), forgotten (T3), lost (T4)"]
    assert rules_on_nowhere([GateEntry.of_scenario("truncation/kip-320", tmp_path)]) == []


# --- fingerprints -------------------------------------------------------------------------------------


INPUTS = [
    graph.leaf(0, BOOL, 0, 1),
    graph.leaf(1, BOOL, 0, 1),
    graph.leaf(2, INT, 0, 3),
    graph.leaf(3, INT, 0, 3),
    graph.leaf(4, BITS, 0, 3),
]
STATES = list(itertools.product(range(2), range(2), range(4), range(4), range(4)))


def test_equal_fingerprints_mean_equal_values() -> None:
    """Compares all small expressions on all states."""
    numbers = [*INPUTS[2:4], graph.count(INPUTS[4]), graph.const(1, INT), graph.const(2, INT)]
    pairs = list(itertools.product(numbers, repeat=2))
    sums = [f(x, y) for x, y in pairs for f in (graph.add, graph.sub, graph.min_, graph.max_)]
    sums += [graph.select(INPUTS[0], x, y) for x, y in pairs] + numbers
    compared = [f(x, y) for x in sums for y in numbers for f in (graph.lt, graph.le, graph.eq)]
    simple = [*INPUTS[:2], graph.lt(*INPUTS[2:4]), graph.eq(*INPUTS[2:4]), graph.member(INPUTS[2], INPUTS[4])]
    simple += [graph.not_(a) for a in simple]
    joined = [f(a, b) for a in simple for b in simple for f in (graph.and_, graph.or_)]
    joined += [f(a, b) for a in joined[::7] for b in simple for f in (graph.and_, graph.or_)]
    nodes = list({n.id: n for n in [*compared, *joined]}.values())
    evaluate, prints = compile_nodes(nodes), Fingerprints()
    tables = list(zip(*map(evaluate, STATES), strict=True))
    found: dict[str, int] = {}
    for number, node in enumerate(nodes):
        other = found.setdefault(prints.node(node), number)
        assert tables[other] == tables[number], (nodes[other], node)
    assert 500 < len(found) < len(nodes), "some are one, most are not"


def test_equivalent_expressions_have_equal_fingerprints() -> None:
    a, b, x, y, s = INPUTS
    two, three = graph.const(2, INT), graph.const(3, INT)
    t = graph.singleton(x, 2) if x.high < 2 else graph.singleton(graph.min_(x, graph.const(1, INT)), 2)
    pairs = [
        (graph.or_(graph.not_(a), graph.not_(b)), graph.not_(graph.and_(a, b))),
        (graph.and_(graph.and_(a, b), graph.lt(x, y)), graph.and_(a, graph.and_(graph.lt(x, y), b))),
        (graph.lt(x, three), graph.le(x, two)),
        (graph.add(graph.add(x, y), y), graph.add(graph.add(y, y), x)),
        (graph.max_(graph.max_(x, y), two), graph.max_(y, graph.max_(two, x))),
        (graph.union(graph.union(s, t), s), graph.union(t, s)),
        (graph.eq(x, y), graph.eq(y, x)),
    ]
    for one, other in pairs:
        assert Fingerprints().node(one) == Fingerprints().node(other), (one, other)


NAMES = ("truncation/kip-320-first-try", "replication/defect-former-leader", "replication/controller/small")


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_the_model(name: str) -> None:
    request = Request.of(scenario_files.find(name), Overrides())
    model = request.model()
    restored = RestoredModel(image(model, request))
    assert Fingerprints().model(restored) == Fingerprints().model(model)
    assert [str(i) for i in restored.instances] == [str(i) for i in model.instances]
    assert restored.decode(restored.initial[0]) == model.decode(model.initial[0])
    assert restored.bounds == model.bounds
    for one, other in zip(restored.instances, model.instances, strict=True):
        assert [g.node for g in one.guards] == [g.node for g in other.guards], (
            "nodes are hash-consed: one graph"
        )
        assert {k: w.node for k, w in one.writes.items()} == {k: w.node for k, w in other.writes.items()}
        assert [(c.leaf, c.node, c.bound) for c in one.checks] == [
            (c.leaf, c.node, c.bound) for c in other.checks
        ]


def test_a_property_of_runs_with_parameters_and_alternatives() -> None:
    asked: Any = SimpleNamespace(parameters={}, rules={}, symmetry=False, deadlock=False)
    model = Model(Election({"settles": 0}), (), Election.liveness)
    restored = RestoredModel(json.loads(json.dumps(image(model, asked))))
    assert Fingerprints().model(restored) == Fingerprints().model(model)
    for one, other in zip(restored.liveness, model.liveness, strict=True):
        assert one.cases == other.cases
        assert one.groups == other.groups


def reached(model: Model) -> dict[Scalars, int]:
    """Each reachable state with its depth, in breadth-first order."""
    interpreter, depth = Interpreter(model), dict.fromkeys(model.initial, 1)
    states = list(depth)
    for state in states:
        new = [after for after in dict.fromkeys(interpreter.successors(state)) if after not in depth]
        depth |= dict.fromkeys(new, depth[state] + 1)
        states += new
    return depth


def steps(model: Model, state: Scalars) -> dict[tuple[str, str], Scalars]:
    """(action, parameters) of each step from a state → the state after it."""
    found = interpreter_of(model).steps(state)
    return {
        (s.instance.action.name, repr(s.instance.parameters)): s.state for s in found if s.state is not None
    }
