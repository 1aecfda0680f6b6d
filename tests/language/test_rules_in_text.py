"""Guards, checks, conditions and fields under a rule; cases(); protocols of several modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from highwater.model.language import (
    Array,
    Checks,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Number,
    Only,
    Option,
    Protocol,
    Rule,
    State,
    Struct,
    Truth,
    action,
    cases,
    graph,
    invariant,
    require,
    under,
)
from highwater.model.language.interpreter import Interpreter, compile_nodes
from highwater.model.language.tracing import NamedCheck

COLOUR = Enum("Colour", "RED GREEN BLUE")


class Counter(Protocol):
    """Counts to 3; a rule limits it to 1, and another adds a field that counts the steps."""

    name = "counter"
    rules = {"small": Rule("example", "It stops at 1."), "kept": Rule("example", "It counts its steps.")}

    def define(self) -> Struct:
        self.place = Index("place", 2)
        self.inner = Struct("Inner", n=Int(0, 3), often=Only(Int(0, 7), self.on("kept")))
        self.row = Array(self.place, Int(0, 3))
        return Struct(
            "State",
            n=Int(0, 3),
            inner=self.inner,
            steps=Only(Int(0, 7), self.on("kept")),
            last=Int(0, 3),
            row=Only(self.row, self.on("kept")),
            deep=Only(self.inner, self.on("kept")),
        )

    def initial(self) -> list[dict[str, Any]]:
        inner = {"n": 0, "often": 0}
        return [{"n": 0, "inner": inner, "steps": 0, "last": 0, "row": [0, 0], "deep": inner}]

    @action("example")
    def count(self, s: State) -> None:
        require("below 3", s.n < 3)
        require("below 1", s.n < 1, rule="small")
        s.next.n = s.n + 1
        s.next.steps = s.steps + 1
        s.next.inner = s.inner.replace(often=s.inner.often + 1)
        s.next.row[0] = s.row[0] + 1
        s.next.deep.n = s.deep.n + 1
        s.next.last = s.steps


@invariant("example")
def stays_small(m: Counter, s: State) -> Truth:
    return under("small", s.n <= 1) & (s.n <= 3)


def model(*rules: str) -> Model:
    return Model(Counter(None, rules), [stays_small])


class TestUnderARule:
    def test_a_guard_is_there_only_where_its_rule_is_on(self) -> None:
        names = {rules: [g.name for g in model(*rules).instances[0].guards] for rules in ((), ("small",))}
        assert names == {(): ["below 3"], ("small",): ["below 3", "below 1"]}

    def test_a_condition_is_true_if_its_rule_is_off(self) -> None:
        with_rule, without = model("small"), model()
        state = with_rule.protocol.state.encode(dict(Counter().initial()[0]) | {"n": 2})
        for found, expected in ((with_rule, False), (without, True)):
            assert bool(compile_nodes([found.properties[0].node])(state)[0]) is expected


class TestChecks:
    def checks(self, *rules: str, on: bool = True, asks: str = "small") -> list[NamedCheck]:
        checks = Checks(COLOUR.GREEN, on=Counter(None, rules).on if on else None)
        checks.check("first", True, COLOUR.RED)
        checks.check("second", False, COLOUR.BLUE, rule=asks)
        return list(checks)

    def test_a_check_is_made_only_where_its_rule_is_on(self) -> None:
        assert [c.name for c in self.checks()] == ["first"]
        assert [c.name for c in self.checks("small")] == ["first", "second"]


class TestOnly:
    def test_an_absent_field_takes_no_room(self) -> None:
        paths = [leaf.path for leaf in model().leaves]
        assert paths == ["n", "inner.n", "last"]
        assert model("kept").leaves[2].path == "inner.often"
        assert model().decode(model().initial[0]) == {"n": 0, "inner": {"n": 0}, "last": 0}

    def test_a_present_field_is_written_and_read(self) -> None:
        found = Interpreter(model("kept"))
        state = found.model.initial[0]
        for _ in range(2):
            (state,) = found.successors(state)
        inner = {"n": 0, "often": 2}
        assert found.model.decode(state) == {
            "n": 2, "inner": inner, "steps": 2, "last": 1, "row": [2, 0], "deep": {"n": 2, "often": 0}
        }  # fmt: skip

    def test_an_absent_field_reads_as_zero_and_drops_writes(self) -> None:
        found = Interpreter(model())
        state = found.model.initial[0]
        for _ in range(2):
            (state,) = found.successors(state)
        assert found.model.decode(state) == {"n": 2, "inner": {"n": 0}, "last": 0}

    @pytest.mark.parametrize(
        ("write", "says"),
        [
            (lambda s: setattr(s.next, "steps", "many"), "expected Int"),
            (lambda s: setattr(s.next.deep, "n", True), "expected Int"),
            (lambda s: setattr(s.next.deep, "m", 1), "Inner has no field 'm'"),
            (lambda s: s.next.row.__setitem__(0, "many"), "expected Int"),
            (lambda s: s.next.steps[0], "has no elements"),
            (lambda s: s.inner.replace(often="many"), "expected Int"),
            (lambda s: setattr(s.next, "nothing", 1), "State has no field 'nothing'"),
        ],
    )
    def test_a_mistake_in_an_absent_field_is_refused_too(self, write: Any, says: str) -> None:
        class Wrong(Counter):
            @action()
            def count(self, s: State) -> None:
                write(s)

        for rules in ((), ("kept",)):
            with pytest.raises(LanguageError, match=says):
                Model(Wrong(None, rules))

    def test_a_value_may_leave_out_an_absent_field_and_not_mistype_it(self) -> None:
        inner = Counter(None, ()).inner
        assert inner(n=1).nodes == inner(n=1, often=2).nodes
        with pytest.raises(LanguageError, match="expected Int"):
            inner(n=1, often="many")
        with pytest.raises(LanguageError, match="Inner needs often"):
            Counter(None, ["kept"]).inner(n=1)


class TestCases:
    def run(self, value: Any, scalars: list[int]) -> int:
        return int(compile_nodes(list(value.nodes))(scalars)[0])

    def test_the_first_condition_that_holds_decides(self) -> None:
        n = Number(None, (graph.leaf(0, graph.INT, 0, 3),))
        value = cases((n == 0, 10), (n <= 1, n + 20), (n <= 2, 30), otherwise=40)
        assert [self.run(value, [i]) for i in range(4)] == [10, 21, 30, 40]

    def test_plain_values_get_the_type_of_the_symbolic_ones(self) -> None:
        n = Number(None, (graph.leaf(0, graph.INT, 0, 3),))
        option = Option(Int(0, 3))
        value = cases((n == 0, option.some(2)), (n == 1, None), (n == 2, 3), otherwise=None)
        assert [option.decode([self.run(value, [i])]) for i in range(4)] == [2, None, 3, None]


class TestModules:
    def module(self, name: str, *actions: str) -> ModuleType:
        module = ModuleType(name)
        for number, called in enumerate(actions):
            text = f"def {called}(m, s):\n    s.next.n = {number}\n"
            exec(text, module.__dict__)
            setattr(module, called, action()(getattr(module, called)))
        return module

    def protocol(self, *modules: Any) -> type[Protocol]:
        return type("Split", (Counter,), {"modules": modules, "name": "split"})

    def test_actions_come_in_the_order_of_modules_and_then_of_the_class(self) -> None:
        first, second = self.module("first", "z", "y"), self.module("second", "x")
        second.__dict__["borrowed"] = first.z
        assert [a.name for a in self.protocol(first, second).actions()] == ["z", "y", "x", "count"]
        names = [i.action.name for i in Model(self.protocol(first, second)()).instances]
        assert names == ["z", "y", "x", "count"]

    def test_two_modules_with_one_name_are_an_error(self) -> None:
        with pytest.raises(LanguageError, match="split: two of its modules define the action x"):
            self.protocol(self.module("first", "x"), self.module("second", "x")).actions()
