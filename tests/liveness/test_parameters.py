"""Liveness properties for each index value, made in a loop, and "eventually always"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.liveness.fairness import FairGroups
from highwater.checker.report import counterexample
from highwater.checker.report.vacuity import constant_properties
from highwater.checker.scenarios import listing
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Bool,
    Enum,
    LanguageError,
    Model,
    Parameter,
    Protocol,
    Set,
    State,
    Struct,
    action,
    always_eventually,
    any_of,
    eventually,
    eventually_always,
    first,
    invariant,
    leads_to,
    leads_to_always,
    require,
    weak,
)
from highwater.model.language.liveness import FairGroup, Liveness
from tests.checker.schema import problems
from tests.command import highwater

SCHEMA = Path(counterexample.__file__).with_name("result.schema.json")


@leads_to("T", fair=weak("serve"), to="client")
def is_served(m: Any, s: State, to: Any) -> Any:
    return s.waits.has(to), ~s.waits.has(to)


def made_in_a_loop(client: str) -> Liveness:
    @leads_to("T", fair=weak("serve"), name=f"{client}_is_served")
    def served(m: Any, s: State) -> Any:
        return s.waits.has(client), ~s.waits.has(client)

    return served


class Counter(Protocol):
    """Clients wait and are served; a hasty server always serves the first one."""

    name = "counter"
    parameters = {"hasty": Parameter(1, 0, 1, "whether it takes the first one always")}
    liveness = (is_served, *(made_in_a_loop(c) for c in ("c1", "c2", "c3")))

    def define(self) -> Struct:
        self.client = Enum("c", 3)
        return Struct("State", waits=Set(self.client))

    @action(says="{who} comes", who="client")
    def come(self, s: State, who: Any) -> None:
        require("it does not wait", ~s.waits.has(who))
        s.next.waits = s.waits.with_(who)

    @action(says="{to} is served", to="client")
    def serve(self, s: State, to: Any) -> None:
        require("it waits", s.waits.has(to))
        if self.p.hasty:
            require("it is the first", first(self.client, s.waits.has).is_(to))
        s.next.waits = s.waits.without(to)


PROTOCOL = Counter


def found(model: Model, name: str, engine: str = "interpreter") -> counterexample.Counterexample | None:
    prop = next(p for p in model.liveness if p.name == name)
    explored = engines.explore(engine)(model, SearchOptions(workers=1), None)
    violation = violating_run(explored, prop).violation
    if violation is None:
        return None
    (example,) = counterexample.follow_all(model, [violation])
    return example


@pytest.mark.parametrize("engine", ["interpreter", "native"])
def test_the_failing_parameter_value_is_reported(engine: str) -> None:
    example = found(Model(Counter(), (), Counter.liveness), "is_served", engine)
    assert example is not None
    assert example.parameters["to"] in ("c2", "c3"), "the first one is always served"
    assert [*example.others, example.parameters] in (
        [{"to": "c2"}, {"to": "c3"}],
        [{"to": "c3"}, {"to": "c2"}],
    )
    text = "\n".join(counterexample.plain(Model(Counter(), (), Counter.liveness), example))
    assert f"is_served(to={example.parameters['to']}) (T) is violated after" in text
    assert f"Also for to={example.others[0]['to']}." in text


def test_it_holds_for_each_where_it_holds() -> None:
    assert found(Model(Counter({"hasty": 0}), (), Counter.liveness), "is_served") is None


def test_properties_that_are_made_in_a_loop() -> None:
    model = Model(Counter(), (), Counter.liveness)
    assert [found(model, f"c{i}_is_served") is None for i in (1, 2, 3)] == [True, False, False]

    def of(c: str) -> Any:
        @invariant("T", name=f"{c}_waits")
        def waits(m: Any, s: State) -> Any:
            return s.waits.has(c)

        return waits

    model = Model(Counter(), [of("c1"), of("c3")])
    assert [p.name for p in model.properties] == ["c1_waits", "c3_waits"]


def test_text_and_json_have_the_failing_parameter_value(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text("from tests.liveness.test_parameters import PROTOCOL\n")
    file = tmp_path / "live.toml"
    file.write_text(
        'protocol = "counter.py"\nproperties = ["is_served"]\n[expect]\nviolated = ["is_served"]\n'
    )
    run = highwater("check", str(file), "--engine", "interpreter", "--json", "-")
    assert run.status == 0
    (violation,) = run.results[0]["violations"]
    assert violation["property"] == "is_served"
    assert {violation["parameters"]["to"], *(o["to"] for o in violation["others"])} == {"c2", "c3"}
    assert problems(run.results, json.loads(SCHEMA.read_text("utf-8"))) == []
    told = highwater("check", str(file), "--engine", "interpreter")
    assert f"violated (expected): is_served(to={violation['parameters']['to']}) at depth" in told.out
    (entry,) = [e for e in listing.entries("liveness") if e["name"] == "proposals_come_to_rest"]
    assert entry["parameters"] == {}


# --- eventually always --------------------------------------------------------------------------------


@eventually_always("T", fair=weak("settle"))
def one_leads_for_ever(m: Any, s: State) -> Any:
    return [s.leader == n for n in m.node]


@eventually_always("T", fair=weak("settle"))
def somebody_leads(m: Any, s: State) -> Any:
    return any_of(s.leader == n for n in m.node)


@leads_to_always("T")
def settled_for_ever(m: Any, s: State) -> Any:
    return s.settled, s.settled


@eventually_always("T", fair=weak("settle"))
def settled_in_the_end(m: Any, s: State) -> Any:
    return s.settled


@eventually("T", fair=weak("settle"))
def settled_if_n2_begins(m: Any, s: State) -> Any:
    """The premise restricts it to runs that begin with n2 as leader."""
    return s.leader == "n2", s.settled


class Election(Protocol):
    """Leaders change until the election is settled; ``undone`` can unsettle it."""

    name = "election"
    parameters = {"settles": Parameter(1, 0, 1, "."), "undone": Parameter(0, 0, 1, ".")}
    some, one = ("n1", "n2"), ("n1",)
    liveness = (
        one_leads_for_ever,
        somebody_leads,
        settled_for_ever,
        settled_in_the_end,
        settled_if_n2_begins,
    )

    def define(self) -> Struct:
        self.node = Enum("n", 3)
        return Struct("State", leader=self.node, settled=Bool)

    @action(says="{n} leads", n="node")
    def elect(self, s: State, n: Any) -> None:
        require("nothing is settled, and it does not lead", ~s.settled & (s.leader != n))
        s.next.leader = n

    @action(says="it is settled")
    def settle(self, s: State) -> None:
        require("it can be, and is not", (self.p.settles == 1) & ~s.settled)
        s.next.settled = True

    @action(says="it is undone")
    def undo(self, s: State) -> None:
        require("it can be, and was settled", (self.p.undone == 1) & s.settled)
        s.next.settled = False


VERDICTS = {
    (1, 0): set[str](),
    (0, 0): {"one_leads_for_ever", "settled_in_the_end"},
    (1, 1): {"one_leads_for_ever", "settled_for_ever", "settled_in_the_end"},
}
r"""Violated properties for (settles, undone), as TLC finds: `\\E n: <>[](leader = n)`, `settled ~>
[]settled`, `<>[]settled`.
"""


@pytest.mark.parametrize(("settles", "undone"), VERDICTS)
def test_eventually_always_has_tlc_s_verdicts(settles: int, undone: int) -> None:
    model = Model(Election({"settles": settles, "undone": undone}), (), Election.liveness)
    assert {p.name for p in model.liveness if found(model, p.name)} == VERDICTS[settles, undone]


def test_a_loop_in_which_each_of_several_fails() -> None:
    model = Model(Election({"settles": 0}), (), Election.liveness)
    example = found(model, "one_leads_for_ever")
    assert example is not None
    assert example.loop is not None
    assert len(example.loop.missed) == 3
    for step, node in zip(example.loop.missed, ("n1", "n2", "n3"), strict=True):
        assert step >= example.loop.start
        assert example.steps[step].state["leader"] != node
    assert "none of what has to last does: see state" in "\n".join(counterexample.plain(model, example))
    told = found(model, "settled_in_the_end")
    assert told is not None
    assert "what has to last does not: see state 1" in "\n".join(counterexample.plain(model, told))


def test_constant_liveness_is_reported_for_all_parameter_values_together() -> None:
    @always_eventually("T", n="node")
    def nothing(m: Any, s: State, n: Any) -> Any:
        return True

    @always_eventually("T", n="node")
    def one_of_them(m: Any, s: State, n: Any) -> Any:
        return s.settled if n.nodes[0].value == 1 else True

    constant = constant_properties(Model(Election(), (), [nothing, one_of_them]))
    assert constant == {"nothing": "has a goal that is true in every state"}


def wrong(mark: Callable[..., Any], function: Callable[..., Any], **domains: str) -> Callable[[], object]:
    return lambda: Model(Election(), (), [mark("T", name="live", **domains)(function)])


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (wrong(leads_to, lambda m, s, n: (s.settled, s.settled)), "parameter 'n' of liveness property live has"),
        (wrong(eventually, lambda m, s: s.settled, n="node"), "gives 'n' a domain, and its function has no"),
        (wrong(eventually, lambda m, s, n: s.settled, n="nodes"), "ranges over 'nodes', which define() does"),
        (wrong(leads_to_always, lambda m, s: s.settled), "leads-to-always property live returns (premise, goal)"),
        (wrong(always_eventually, lambda m, s: (s.settled, s.settled)), "live returns the goal"),
        (wrong(eventually, lambda m, s: [s.settled]), "it returns a condition"),
        (wrong(eventually_always, lambda m, s: []), "returned no goal at all"),
        (wrong(eventually_always, lambda m, s: s.leader), "it returns a condition"),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_an_error(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(LanguageError) as error:
        declare()
    assert message in str(error.value)


def test_a_parameter_without_values_is_an_error() -> None:
    class Empty(Election):
        name = "empty"
        nobody: tuple[str, ...] = ()

    @eventually("T", n="nobody")
    def comes(m: Any, s: State, n: Any) -> Any:
        return s.settled

    with pytest.raises(LanguageError, match="the parameters of comes have no values: it says nothing"):
        Model(Empty(), (), [comes])


# --- more fairness groups than a word has bits --------------------------------------------------------


def groups_of(bits: np.ndarray) -> set[int]:
    """The numbers of the bits that are set in a row of words."""
    return {64 * w + b for w, word in enumerate(bits.tolist()) for b in range(64) if word >> b & 1}


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 130])
def test_groups_stay_distinct(count: int) -> None:
    """A ring of states; the step from each state is the only one of its fairness group."""
    groups = tuple(FairGroup(f"group {g}", g % 3 == 0, frozenset({g})) for g in range(count))
    offsets, numbers = np.arange(count + 1), np.arange(count)
    targets = (numbers + 1) % max(count, 2)
    none = np.zeros(count + 1, dtype=np.int64)
    fair = FairGroups(groups, offsets, targets, numbers, none, none[:0], {count - 1: numbers != count - 1})
    strong = {g for g in range(count) if g % 3 == 0}
    assert (groups_of(fair.strong), groups_of(fair.weak)) == (strong, set(range(count)) - strong)
    # The last group counts as enabled everywhere except in its step's state.
    assert [groups_of(row) for row in fair.enabled] == [{g} if g < count - 1 else set() for g in range(count)]
    assert [groups_of(row) for row in fair.of_step(numbers, numbers)] == [
        groups_of(row) for row in fair.enabled
    ]
