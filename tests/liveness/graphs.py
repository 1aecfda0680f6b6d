"""Random small graphs with random fairness, as models, and an independent search for fair runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import networkx as nx
from hypothesis import strategies as st

from highwater.model.language import Int, Model, Protocol, State, Struct, any_of, require, where
from highwater.model.language.liveness import Fairness, Kind, Liveness
from highwater.model.language.protocol import Action

CUT = -1


@dataclass(frozen=True)
class Said:
    """A property for one parameter value. ``or_goal`` is an alternative goal of "eventually always"."""

    premise: frozenset[int]
    goal: frozenset[int]
    or_goal: frozenset[int] | None = None

    @property
    def goals(self) -> list[frozenset[int]]:
        return [self.goal] if self.or_goal is None else [self.goal, self.or_goal]


@dataclass(frozen=True)
class Graph:
    """``moves[action][choice][state]`` is the next state; CUT: beyond the bound; None: not enabled."""

    states: int
    moves: tuple[tuple[tuple[int | None, ...], ...], ...]
    kind: Kind
    cases: tuple[Said, ...]
    fair: tuple[Fairness, ...]


@dataclass(frozen=True)
class Within:
    """A fairness condition: the state is in ``states``, and the parameter, if given, equals ``choice``."""

    states: frozenset[int]
    choice: int | None = None

    __name__ = "it_counts"

    def __call__(self, m: Any, s: State, **parameters: int) -> Any:
        chosen = self.choice is None or parameters.get("choice", self.choice) == self.choice
        return any_of(s.at == i for i in self.states if chosen)

    def holds(self, state: int, choice: int | None) -> bool:
        """True for plain values; a choice of None stands for a group of all choices."""
        return state in self.states and (self.choice is None or choice is None or choice == self.choice)


@st.composite
def graphs(draw: st.DrawFn, largest: int = 6) -> Graph:
    states = draw(st.integers(1, largest))
    move = st.one_of(st.none(), *[st.integers(0, states - 1)] * 3, st.just(CUT))
    choice = st.tuples(*[move] * states)
    actions = draw(st.integers(1, 3))
    moves = draw(st.tuples(*[st.tuples(choice, choice)] * actions))
    some, most = (st.frozensets(st.integers(0, states - 1), max_size=n) for n in (2, states))
    fairness = st.builds(
        Fairness,
        st.lists(st.sampled_from([f"move{i}" for i in range(actions)]), min_size=1, unique=True).map(tuple),
        st.booleans(),
        st.sampled_from([None, (), ("choice",)]),
        st.sampled_from([{}, {}, {"choice": 1}]),
        st.one_of(st.none(), st.builds(Within, most, st.sampled_from([None, 0, 1]))),
    ).filter(lambda f: not (f.only and f.by == ("choice",)))
    kind = draw(st.sampled_from(Kind))
    premise = st.one_of(some, st.just(frozenset(range(states)))) if kind.of_start else some
    goal = most if kind.lasting else some
    said = st.builds(Said, premise, goal, st.one_of(st.none(), goal) if kind.lasting else st.none())
    cases = draw(st.lists(said, min_size=1, max_size=3))
    return Graph(states, moves, kind, tuple(cases), tuple(draw(st.lists(fairness, max_size=4))))


def model_of(graph: Graph) -> Model:
    """The graph as a protocol. The bound is the last state."""

    def one_of(s: State, members: Any) -> Any:
        return any_of(s.at == i for i in members)

    def act(table: tuple[tuple[int | None, ...], ...]) -> Any:
        def step(self: Protocol, s: State, choice: int) -> None:
            targets = table[choice]
            require("there is a way", one_of(s, [i for i, t in enumerate(targets) if t is not None]))
            after: Any = s.at
            for i, target in enumerate(targets):
                if target is not None:
                    after = where(s.at == i, graph.states if target == CUT else target, after)
            s.next.at = after

        return step

    class Moves(Protocol):
        name = "moves"

        def define(self) -> Struct:
            self.choices = range(2)
            self.cases = range(len(graph.cases))
            self.place = Int(0, graph.states - 1, bound="edge")
            return Struct("State", at=self.place)

        def initial(self) -> list[dict[str, Any]]:
            return [{"at": 0}]

        @classmethod
        def actions(cls) -> list[Action]:
            return [
                Action(f"move{i}", act(table), {"choice": "choices"}) for i, table in enumerate(graph.moves)
            ]

    def what(m: Protocol, s: State, case: int) -> Any:
        said = graph.cases[case]
        goals = [one_of(s, goal) for goal in said.goals]
        goal: Any = goals if len(goals) > 1 else goals[0]
        return goal if graph.kind is Kind.ALWAYS_EVENTUALLY else (one_of(s, said.premise), goal)

    return Model(Moves(), (), [Liveness("live", what, graph.kind, "T", graph.fair, None, {"case": "cases"})])


def violated_cases(graph: Graph) -> set[int]:
    return {number for number, said in enumerate(graph.cases) if is_violated(graph, said)}


def is_violated(graph: Graph, said: Said) -> bool:
    """True if a fair run misses the goal, by trying every set of states in which a run can stay.

    Such a set is strongly connected, or one state. A run that takes all of its steps is the fairest.
    """
    whole = nx.DiGraph()
    whole.add_nodes_from(range(graph.states))
    for table in graph.moves:
        for targets in table:
            whole.add_edges_from((i, t) for i, t in enumerate(targets) if t is not None and t != CUT)
    reachable = nx.descendants(whole, 0) | {0}
    asks = {
        Kind.EVENTUALLY: {0} & said.premise,
        Kind.EVENTUALLY_ALWAYS: {0} & said.premise,
        Kind.ALWAYS_EVENTUALLY: reachable,
        Kind.LEADS_TO: reachable & said.premise,
        Kind.LEADS_TO_ALWAYS: reachable & said.premise,
    }[graph.kind]
    forbidden = frozenset() if graph.kind.lasting else said.goal
    missing = whole.subgraph(reachable - forbidden)
    open_ = set().union(*({s} | nx.descendants(missing, s) for s in asks - forbidden), set())
    for size in range(1, len(open_) + 1):
        for chosen in itertools.combinations(sorted(open_), size):
            stays = nx.is_strongly_connected(missing.subgraph(chosen)) and _is_fair(graph, set(chosen))
            if stays and all(set(chosen) - goal for goal in said.goals):
                return True
    return False


def _is_fair(graph: Graph, states: set[int]) -> bool:
    for fairness in graph.fair:
        choices = [0, 1] if not fairness.only else [fairness.only["choice"]]
        alone = fairness.by == ("choice",) or (fairness.by is None and not fairness.only)
        for group in [[c] for c in choices] if alone else [choices]:
            tables = [graph.moves[int(a.removeprefix("move"))][c] for a in fairness.actions for c in group]
            counting = states
            if isinstance(fairness.when, Within):
                counting = {s for s in states if fairness.when.holds(s, group[0] if alone else None)}
            possible = {s for s in counting if any(t[s] is not None and t[s] != s for t in tables)}
            taken = any(t[s] in states - {s} for t in tables for s in counting)
            if not taken and (possible if fairness.strong else possible == states):
                return False
    return True
