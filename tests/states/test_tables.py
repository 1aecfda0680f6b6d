"""The tables: columns agree with the plain decoder, files read back equal, and the command's options."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import by_name as engines
from highwater.checker.engines import reference
from highwater.checker.engines.native.initial import evaluated
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import SearchOptions
from highwater.checker.tables.networkx_graph import to_networkx
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Messages,
    Model,
    Option,
    Parameter,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    invariant,
    require,
)
from tests import models, zoo

pa = pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.tables import directory  # noqa: E402
from highwater.checker.tables.content import STATE_COLUMNS, StateTable  # noqa: E402
from highwater.checker.tables.writing import TableFile, write  # noqa: E402
from tests.slow import slow  # noqa: E402
from tests.states.conftest import run  # noqa: E402


def read(place: Path, table: str) -> Any:
    from pyarrow.dataset import dataset

    return dataset(place / table).to_table().to_pylist()


def rows_of(model: Model, states: list[Any]) -> list[dict[str, Any]]:
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in states], dtype=np.uint64)
    numbers = np.arange(len(states))
    table = StateTable(model, layout).rows(numbers, numbers + 1, numbers >= 0, numbers, numbers, packed)
    return list(table.to_pylist())


def undecoded(model: Model, states: list[Any]) -> list[Any]:
    """States whose columns differ from the plain decoder's values."""
    pairs = zip(states, rows_of(model, states), strict=True)
    return [s for s, row in pairs if any(row[k] != listed(v) for k, v in model.decode(s).items())]


def listed(plain: Any) -> Any:
    """A plain value with tuples as lists, and true for a struct without fields."""
    return json.loads(json.dumps(plain), object_hook=lambda value: value or True)


@pytest.mark.parametrize(
    "nodes", [2, 3, pytest.param(5, marks=slow("larger values of each type; fast with three nodes"))]
)
def test_columns_of_every_type(nodes: int) -> None:
    model = models.everything(nodes=nodes)
    assert undecoded(model, list(models.arbitrary_states(model, 500))) == []


class Perhaps(Protocol):
    """Options of each type whose column has no null of its own."""

    def define(self) -> Struct:
        node, small = Index("node", 3), Int(0, 2)
        pair = Struct("Pair", flag=Option(Bool), low=small)
        contents: dict[str, Any] = {
            "flag": Bool,
            "set": Set(node),
            "log": Seq(small, 2),
            "row": Array(node, pair),
        }
        return Struct("State", **{name: Option(content) for name, content in contents.items()})


def test_columns_of_options_can_be_null() -> None:
    model = Model(Perhaps())
    states = list(models.arbitrary_states(model, 200))
    assert undecoded(model, states) == []
    assert all(
        {row[name] is None for row in rows_of(model, states)} == {True, False}
        for name in ("flag", "set", "log", "row")
    )


class Post(Protocol):
    """Messages with and without fields, and structs without fields."""

    name = "post"
    parameters = {"copies": Parameter(0, 0, 2, "copies of each message")}

    def define(self) -> Struct:
        node, colour = Index("node", 2), Enum("Colour", "red green")
        letter = dict(n=Int(-1, 1), to=Set(node), of=Option(colour), about=Struct("About", is_new=Bool))
        self.post = Messages(duplicates=self.p.copies, bound="copies", ping={}, letter=letter)
        self.ping, self.n = self.post.of("ping"), Int(-1, 1)
        return Struct(
            "State", post=self.post, nothing=Struct("None"), perhaps=Option(Struct("None")), last=self.n
        )

    @action(m="ping")
    def ping_once(self, s: State, m: Any) -> None:
        s.next.post.send(m)

    @action(n="n")
    def write(self, s: State, n: Any) -> None:
        require("another one", n != s.last)
        s.next.post.send("letter", n=n, to=[1], of="green", about={"is_new": True})
        s.next.last, s.next.perhaps = n, {}


@pytest.mark.parametrize("copies", [0, 2])
def test_the_files_hold_messages(tmp_path: Path, copies: int) -> None:
    graph = explore(Model(Post({"copies": copies})), SearchOptions(workers=1))
    write(graph, tmp_path, 1, None)
    states = read(tmp_path, directory.STATES)
    layout = Layout(graph.model.leaves)
    plain = [listed(graph.model.decode(layout.unpack(state))) for state in graph.states]
    assert {len(row["post"]["letter"]) for row in plain} >= {0, 2}
    assert [
        {**{name: row[name] for name in row if name in plain[0]}, "nothing": True} for row in states
    ] == plain
    assert "nothing" not in states[0]
    chosen = [
        t["parameters"]["m"] for t in read(tmp_path, directory.TRANSITIONS) if t["action"] == "ping_once"
    ]
    assert set(chosen) == {True}


def test_the_files_hold_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwater.checker.tables import writing

    monkeypatch.setattr(writing, "_STATES_IN_FILE", 700)
    monkeypatch.setattr(writing, "ROWS", 300)
    graph = explore(models.scenario_model("truncation/kip-101", max_records=1), SearchOptions(workers=1))
    written = write(graph, tmp_path, 2, None)
    states, transitions = read(tmp_path, directory.STATES), read(tmp_path, directory.TRANSITIONS)
    assert len(list((tmp_path / directory.STATES).iterdir())) == -(-len(graph.states) // 700)
    assert (written.states, written.transitions) == (len(graph.states), len(graph.targets))
    assert [row["state"] for row in states] == list(range(len(graph.states)))
    assert [row["depth"] for row in states] == graph.depths().tolist()
    assert [row["steps"] for row in states] == np.diff(graph.offsets).tolist()
    assert [row["cut"] for row in states] == np.diff(graph.cut_offsets).tolist()
    assert sum(row["initial"] for row in states) == len(graph.model.initial)
    for name in ("weak_isr", "strong_isr"):
        holds = evaluated(graph, [graph.model.property(name).node])[0]
        assert [row[name] for row in states] == holds.tolist()
        assert written.violations[name] == (~holds).sum()
    for row, target, number in zip(transitions, graph.targets, graph.instances, strict=True):
        instance = graph.model.instances[number]
        assert row["target"] == target
        assert (row["action"], row["sentence"]) == (instance.action.name, instance.sentence)
        assert {k: v for k, v in row["parameters"].items() if v is not None} == dict(instance.parameters)
    reached = [row["target"] for row in transitions if row["shortest"]]
    assert sorted(reached) == [row["state"] for row in states if not row["initial"]]


class Twice(Protocol):
    """Two actions with the same effect, and fields named like columns."""

    name = "twice"

    def define(self) -> Struct:
        return Struct("State", state=Int(0, 3, bound="end"), depth=Int(0, 0), depth_=Int(0, 0), small=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"state": 0, "depth": 0, "depth_": 0, "small": True}]

    @action()
    def one(self, s: State) -> None:
        s.next.state = s.state + 1

    @action()
    def other(self, s: State) -> None:
        s.next.state = s.state + 1


@invariant("test")
def small(m: Twice, s: State) -> Any:
    return s.state < 3


def test_names_that_are_taken_and_no_parameters(tmp_path: Path) -> None:
    write(explore(Model(Twice(), [small]), SearchOptions(workers=1)), tmp_path, 1, None)
    states = read(tmp_path, directory.STATES)
    fields = ("state_", "depth_", "depth__", "small")
    assert list(states[0]) == [*STATE_COLUMNS, *fields, "small_"]
    assert [row["state_"] for row in states] == [0, 1, 2, 3]
    assert [(row["small"], row["small_"]) for row in states] == [(True, True)] * 3 + [(True, False)]
    assert "parameters" not in read(tmp_path, directory.TRANSITIONS)[0]


def test_one_of_two_steps_to_a_state_is_the_shortest(tmp_path: Path) -> None:
    graph = explore(Model(Twice(), []), SearchOptions(workers=1))
    write(graph, tmp_path, 1, None)
    shortest = [row["target"] for row in read(tmp_path, directory.TRANSITIONS) if row["shortest"]]
    assert len(graph.targets) == 2 * len(shortest)
    assert sorted(shortest) == [1, 2, 3]
    pytest.importorskip("networkx")
    marked = [target for _, target, short in to_networkx(graph).edges(data="shortest") if short]
    assert sorted(marked) == [1, 2, 3]


def test_a_file_that_fails_has_no_name(tmp_path: Path) -> None:
    schema = pa.schema([("state", pa.int64())])
    with pytest.raises(OSError, match="full"), TableFile(tmp_path, "states", 0, schema):
        raise OSError("full")
    assert list((tmp_path / "states").iterdir()) == []


def test_the_command(tmp_path: Path) -> None:
    out, result = tmp_path / "tables", tmp_path / "result.json"
    status, said = run(
        "truncation/kip-101", "--set", "max_records=1", "--out", str(out), "--json", str(result)
    )
    assert status == 0
    assert "9,841 states" in said
    about = json.loads(result.read_text())
    assert about == json.loads((out / "run.json").read_text())
    assert (about["states"], about["complete"]) == (len(read(out, directory.STATES)), True)
    status, said = run("truncation/kip-101", "--out", str(out))
    assert status == 2
    status, said = run("truncation/kip-101", "--out", str(out), "--force", "--limit-states", "500", "--quiet")
    assert (status, said) == (3, "")
    about = json.loads((out / "run.json").read_text())
    states = read(out, directory.STATES)
    assert (about["stopped_by"], about["states"]) == ("states", len(states))
    assert {row["expanded"] for row in states} == {True, False}


@pytest.mark.parametrize(
    "arguments",
    [
        ["truncation/kip-101"],
        ["truncation/kip-102", "--out", "x"],
        ["truncation/kip-101", "--out", "x", "--set", "max_records=99"],
        ["truncation/kip-101", "--out", "x", "--spark-master", "local[1]"],
        ["truncation/kip-101", "--out", os.devnull + "/x"],
        ["truncation/kip-101", "--out", "x", "--engine", "interpreter", "--symmetry"],
    ],
)
def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments)[0] == 2


def test_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    found = reference.explore(Model(zoo.Counters({"counters": 2, "top": 4}), []), SearchOptions())
    graph = to_networkx(found, decoded=True)
    assert (len(graph), graph.number_of_edges()) == (25, 2 * 4 * 5)
    assert networkx.is_directed_acyclic_graph(graph)
    lengths = networkx.single_source_shortest_path_length(graph, 0)
    for state, data in graph.nodes(data=True):
        assert lengths[state] == data["depth"] - 1 == sum(data["state"]["values"])
    assert sum(short for _, _, short in graph.edges(data="shortest")) == 24
    with pytest.raises(InputError, match="too many for networkx"):
        to_networkx(found, most=64)


# --- Spark ------------------------------------------------------------------------------------------------


def content(place: Path) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
    """The rows of both tables, with states' contents instead of numbers, and without what may differ."""
    states = {row.pop("state"): row for row in read(place, directory.STATES)}
    texts = {number: json.dumps(row, sort_keys=True) for number, row in states.items()}
    steps, shortest = Counter[tuple[str, ...]](), list[int]()
    for row in read(place, directory.TRANSITIONS):
        source, target = row.pop("source"), row.pop("target")
        shortest += [target] * row.pop("shortest")
        steps[texts[source], texts[target], json.dumps(row, sort_keys=True)] += 1
    assert sorted(shortest) == sorted(number for number, row in states.items() if not row["initial"])
    return Counter(texts.values()), steps


@slow("starts Spark; the fast tests write with the native engine")
@pytest.mark.usefixtures("_spark")
def test_both_engines_write_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario whose properties are violated, and the message-level scenario of docs/results.md."""
    from tests.spark.conftest import MASTER

    honest = engines.spark_options
    # Levels of at least 800 states run on the cluster.
    monkeypatch.setattr(engines, "spark_options", lambda *asked: replace(honest(*asked), small=800))
    spark = ["--engine", "spark", "--spark-master", MASTER]
    small = ["truncation/kip-101", "--set", "max_records=1"]
    settings = ("brokers=2", "replication_factor=2", "controlled_shutdowns=1")
    large = ["replication/large-data-loss", *(s for name in settings for s in ("--set", name))]
    for scenario, states, transitions in ((small, 9_841, 28_839), (large, 83_677, 296_638)):
        for side, engine in (("native", []), ("spark", spark)):
            out = ["--out", str(tmp_path / side), "--force", "--quiet"]
            assert run(*scenario, *engine, *out) == (0, "")
        found = content(tmp_path / "native")
        assert (found[0].total(), found[1].total()) == (states, transitions)
        assert content(tmp_path / "spark") == found
        abouts = [json.loads((tmp_path / side / "run.json").read_text()) for side in ("native", "spark")]
        assert abouts[0]["violations"] == abouts[1]["violations"]
    assert run(*small, *spark, "--limit-states", "3000", "--out", str(tmp_path / "some"), "--quiet") == (
        3,
        "",
    )
    assert {row["expanded"] for row in read(tmp_path / "some", directory.STATES)} == {True, False}
