"""Message sets agree with Python's sets and counters; initial states from free fields and a condition."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checker.engines import reference
from highwater.checker.engines.native import initial, search
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Messages,
    Model,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    free,
    invariant,
    require,
    size,
    total,
)
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.messages import count_of, number_of, value_at
from highwater.model.language.symmetry import asymmetry
from tests.zoo import stepping

NODE, COLOUR = Index("node", 3), Enum("Colour", "RED GREEN BLUE")
KINDS: dict[str, Any] = {
    "ask": {"who": NODE, "much": Int(-1, 5), "of": Option(COLOUR)},  # 84: more than a word
    "tell": {"who": NODE, "up": Bool},
    "stop": {},
}


def a_message(rng: Random, kind: str) -> dict[str, Any]:
    every = [value_at(Struct(kind, **KINDS[kind]), n) for n in range(count_of(Struct(kind, **KINDS[kind])))]
    found = rng.choice(every)._plain()
    assert isinstance(found, dict)
    return found


def model(stated: Any, duplicates: int = 0) -> Model:
    class Post(Protocol):
        name = "post"

        def define(self) -> Struct:
            return Struct(
                "State",
                post=Messages(duplicates=duplicates, **KINDS),
                who=NODE,
                much=Int(-1, 5),
                of=Option(COLOUR),
                up=Bool,
                n=Int(0, 200),
            )

        def initial(self) -> list[dict[str, Any]]:
            return [{"post": {}, "who": 0, "much": 0, "of": None, "up": False, "n": 0}]

    return Model(stepping(Post, stated)())


def key(kind: str, message: Any) -> tuple[str, str]:
    return kind, repr(sorted(message.items()))


def after(stated: Any, duplicates: int = 0, **before: Any) -> Any:
    """The state after the step; None if the step is refused."""
    traced = model(stated, duplicates)
    state = traced.protocol.state.encode(traced.decode(traced.initial[0]) | before)
    steps = list(Interpreter(traced).steps(state))
    return traced.decode(steps[0].state) if steps and steps[0].state else None


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 40), duplicates=st.sampled_from([0, 3]))
def test_messages_behave_as_pythons_sets_and_counters(seed: int, duplicates: int) -> None:
    rng = Random(seed)
    there: Counter[tuple[str, str]] = Counter()
    plain: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for _ in range(rng.randint(0, 12)):
        kind = rng.choice(list(KINDS))
        message = a_message(rng, kind)
        if there[key(kind, message)] < max(1, duplicates):
            there[key(kind, message)] += 1
            plain[kind].append(message)
    fields = {"who": rng.randrange(3), "much": rng.randint(-1, 5), "of": rng.choice([None, "RED", "BLUE"])}
    up, chosen = rng.random() < 0.5, a_message(rng, "ask")
    known = rng.random() < 0.5  # fields that tracing knows, or that it reads from the state
    operations = [(rng.choice(["send", "discard", "receive"]), rng.choice(list(KINDS))) for _ in range(4)]

    def of(s: Any, kind: str) -> dict[str, Any]:
        if kind == "stop":
            return {}
        if kind == "tell":
            return {"who": s.who, "up": s.up}
        return chosen if known else {"who": s.who, "much": s.much, "of": s.of}

    def stated(m: Any, s: State) -> None:
        for word, kind in operations:
            getattr(s.next.post, word)(kind, **of(s, kind))
        s.next.n = 100 * s.post.count("ask", who=s.who) + size(
            Set(NODE).of(lambda i: s.post.has("tell", who=i))
        )

    def concrete(kind: str) -> dict[str, Any]:
        return {"stop": {}, "tell": {"who": fields["who"], "up": up}}.get(kind, chosen if known else fields)

    wanted, refused = Counter(there), False
    for word, kind in operations:
        name = key(kind, concrete(kind))
        refused |= word == "receive" and not there[name]
        if word == "send":
            wanted[name] = wanted[name] + 1 if duplicates else 1
        else:
            wanted[name] = max(0, wanted[name] - 1)
    asks = sum(1 for m in plain["ask"] if m["who"] == fields["who"])
    told = len({m["who"] for m in plain["tell"]})
    outside = max(wanted.values()) > max(1, duplicates) or 100 * asks + told > 200
    before: dict[str, Any] = {"post": plain, **fields, "up": up}
    if refused:
        assert after(stated, duplicates, **before) is None
    elif outside:
        with pytest.raises(BoundError, match="leaves"):
            after(stated, duplicates, **before)
    else:
        found = after(stated, duplicates, **before)
        assert found is not None
        assert Counter(key(k, m) for k, ms in found["post"].items() for m in ms) == +wanted
        assert found["n"] == 100 * asks + told


@pytest.mark.parametrize(
    ("type", "count"),
    [(Option(COLOUR), 4), (Set(NODE), 8), (Option(Set(NODE)), 9), (Seq(NODE, 2), 13), (Array(NODE, Bool), 8)],
)
def test_every_value_has_a_number_of_its_own(type: Any, count: int) -> None:
    kind = Messages(m=dict(x=type, n=Int(-1, 5))).of("m")
    values = list(kind.constants())
    assert [number_of(kind.message, v.nodes).value for v in values] == kind.possible
    assert len({repr(v._plain()) for v in values}) == len(values) == 7 * count


def test_a_field_that_leaves_its_type_is_not_another_message() -> None:
    def sends(m: Any, s: State) -> None:
        s.next.post.send("ask", who=s.who, much=s.much + 1, of=s.of)

    def asks(m: Any, s: State) -> None:
        require("there", s.post.has("ask", who=s.who, much=s.much + 1, of=None))

    assert after(sends, much=4)["post"]["ask"] == ({"who": 0, "much": 5, "of": None},)
    with pytest.raises(BoundError, match=r"ask\.much of a message leaves -1\.\.5"):
        after(sends, much=5)
    everything = [value_at(Struct("ask", **KINDS["ask"]), n)._plain() for n in range(84)]
    assert after(asks, much=5, post={"ask": everything}) is None
    assert after(asks, much=4, post={"ask": everything}) is not None


def test_a_message_that_is_an_action_s_parameter() -> None:
    class Echo(Protocol):
        name = "echo"

        def define(self) -> Struct:
            self.post = Messages(ping=dict(who=NODE), pong=dict(who=NODE))
            self.ping, self.either = self.post.of("ping"), self.post
            return Struct("State", post=self.post)

        def initial(self) -> list[dict[str, Any]]:
            return [{"post": {"ping": [{"who": 0}, {"who": 2}]}}]

        @action(says="node {m[who]} answers", m="ping")
        def answer(self, s: State, m: Any) -> None:
            s.next.post.receive(m)
            s.next.post.send("pong", who=m.who)

        @action(says="{m} is lost", m="either")
        def lose(self, s: State, m: Any) -> None:
            s.next.post.receive(m)

    traced = Model(Echo())
    assert traced.instances[2].sentence == "node 2 answers"
    assert len(traced.instances) == 9
    for engine in (reference.search, search):
        assert engine(traced, SearchOptions()).distinct_states == 9
        assert engine(traced, SearchOptions(limit_states=3)).stopped_by == "states"
    assert traced.leaves[0].bits == 3


def test_symmetry_renames_the_fields_of_messages() -> None:
    @invariant("test")
    def not_all(m: Any, s: State) -> Any:
        return s.post.count("ping") < 6

    @invariant("test")
    def not_the_first(m: Any, s: State) -> Any:
        return ~s.post.has("ping", who="p1", bit=True)

    class Pings(Protocol):
        name = "pings"
        symmetric = ("p",)

        def define(self) -> Struct:
            self.who = Enum("p", 3)
            return Struct("State", post=Messages(ping=dict(who=self.who, bit=Bool)))

        def initial(self) -> list[dict[str, Any]]:
            return [{"post": {}}]

        @action(who="who")
        def send(self, s: State, who: Any) -> None:
            s.next.post.send("ping", who=who, bit=s.post.has("ping", who=who, bit=False))

    traced = Model(Pings(), [not_all])
    assert asymmetry(traced) is None
    found = [search(traced, SearchOptions(symmetry=reduced)).distinct_states for reduced in (False, True)]
    assert found == [27, 10]
    assert "property not_the_first differs" in str(asymmetry(Model(Pings(), [not_the_first])))


# --- initial states from free fields and a condition --------------------------------------------------


def starting(given: Any, condition: Any = lambda s: True) -> Model:
    class Start(Protocol):
        name = "start"

        def define(self) -> Struct:
            self.node = Index("node", 3)
            return Struct(
                "State",
                n=Int(-2, 2),
                row=Array(self.node, Bool),
                paint=Array(COLOUR, Int(0, 1)),
                set=Set(self.node),
                log=Seq(Int(1, 2), 2),
                maybe=Option(Struct("Pair", a=Bool, b=self.node)),
                post=Messages(ping=dict(who=self.node)),
            )

        def initial(self) -> Any:
            return given

        def initially(self, s: State) -> Any:
            return condition(s)

        @action()
        def step(self, s: State) -> None:
            require("below", s.n < 2)
            s.next.n = s.n + 1

    return Model(Start())


def test_a_field_that_is_not_given_is_zero() -> None:
    found = starting([{"n": 1}])
    assert found.decode(found.initial[0]) == {
        "n": 1,
        "row": [False] * 3,
        "paint": {"RED": 0, "GREEN": 0, "BLUE": 0},
        "set": [],
        "log": [],
        "maybe": None,
        "post": {"ping": ()},
    }


def test_without_initial_every_field_is_zero() -> None:
    class Nothing(Protocol):
        name = "nothing"

        def define(self) -> Struct:
            return Struct("State", n=Int(2, 4), o=Option(Int(0, 3)))

    assert Model(Nothing()).initial == [(2, -1)]


GIVEN: list[Any] = [
    ([{"n": free, "row": free, "paint": free}], 5 * 8 * 8),
    (
        [{"n": free, "row": [free, True, free], "paint": {"RED": free, "GREEN": 1, "BLUE": free(0, 1, 1)}}],
        5 * 4 * 4,
    ),
    ([{"set": free, "log": free}], 8 * 7),
    ([{"maybe": free({"b": 2}, None), "log": free([1], [1, 2]), "row": free}], 2 * 2 * 8),
    ([{"n": free, "row": free}, {"n": 0, "row": free, "set": free}], 5 * 8 + 8 * 7),
    (
        [
            {"post": {"ping": [{"who": 1}]}, "n": free},
            {"post": free({}, {"ping": [{"who": 2}]}), "set": free},
        ],
        5 + 16,
    ),
]
"""Values of ``initial``, each with the number of its states."""


@pytest.mark.parametrize(("given", "count"), GIVEN)
def test_every_engine_lists_the_states_of_free_fields(given: list[dict[str, Any]], count: int) -> None:
    traced = starting(given)
    states = traced.initial
    assert len(set(states)) == len(states) == count
    layout = Layout(traced.leaves)
    assert [layout.unpack(row) for row in initial_words(traced, layout)] == states
    fresh = starting(given)
    assert all(fresh.is_initial(s) for s in states)
    other = [tuple(1 - v if i == 1 else v for i, v in enumerate(s)) for s in states]
    assert [fresh.is_initial(s) for s in other] == [s in set(states) for s in other]


def odd(s: State) -> Any:
    return total(s.row[i] for i in (0, 1, 2)) % 2 == 1


@pytest.mark.parametrize("engine", [reference.search, search])
def test_a_condition_selects_initial_states(engine: Any) -> None:
    traced = starting([{"row": free, "paint": free, "n": 1}], lambda s: odd(s) & (s.paint["RED"] == 1))
    found = engine(traced, SearchOptions())
    assert (found.distinct_states, found.generated_states, found.depth) == (32, 32, 2)
    assert len(traced.initial) == 16
    assert not traced.is_initial(tuple(0 for _ in traced.leaves))


def test_a_counterexample_starts_in_its_initial_state() -> None:
    from highwater.checker.report.counterexample import follow
    from highwater.model.language import invariant
    from highwater.model.language.interpreter import Interpreter

    @invariant("test")
    def low(m: Any, s: State) -> Any:
        return (s.n < 2) | ~s.row[1]

    traced = starting([{"row": free, "paint": free, "n": free(-1, 0)}], odd)
    traced = Model(traced.protocol, [low])
    (violation,) = search(traced, SearchOptions(workers=1)).violations
    assert "initial" not in vars(traced)  # the list of initial states was not built
    assert follow(traced, Interpreter(traced), violation).depth == 3


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_blocks_of_any_size_are_the_same_states_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(initial, "_AT_ONCE", at_once)
    for form, _ in GIVEN:
        found = starting(form)
        assert found.start is not None
        layout = Layout(found.leaves)
        for family in found.start.families:
            words = [row for block in initial._blocks(family, layout) for row in block]
            assert [layout.unpack(row) for row in words] == list(family.states())


def test_free_fields_have_every_value_inside_the_bounds() -> None:
    class Bounded(Protocol):
        name = "bounded"

        def define(self) -> Struct:
            number = Int(0, 2, bound="top")
            return Struct("State", n=number, o=Option(number), log=Seq(number, 1, bound="log"))

        def initial(self) -> Any:
            return [{"n": free, "o": free, "log": free}]

    assert len(Model(Bounded()).initial) == 3 * 4 * 4


def test_too_many_candidates_are_refused() -> None:
    class Many(Protocol):
        name = "many"

        def define(self) -> Struct:
            return Struct("State", row=Array(Index("node", 40), Bool))

        def initial(self) -> Any:
            return [{"row": free}]

    with pytest.raises(LanguageError, match=r"1,099,511,627,776 candidates, and 4,294,967,296 are the most"):
        _ = Model(Many()).start
