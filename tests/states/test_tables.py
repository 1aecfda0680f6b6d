"""The tables: columns agree with the plain decoder, files read back equal, options, and interruptions."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import reference
from highwater.checker.engines.native.instructions import evaluated
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import SearchOptions
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
from tests.slow import slow

pa = pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.engines.columns import STATES, TRANSITIONS, StateTable  # noqa: E402
from highwater.checker.tables import (  # noqa: E402
    ABOUT,
    TableDirectory,
    count_tables,
    to_networkx,
    write,
)
from tests.states.conftest import run  # noqa: E402


def read(place: Path, table: str) -> Any:
    from pyarrow.dataset import dataset

    return dataset(place / table).to_table().to_pylist()


def rows_of(model: Model, states: list[Any]) -> list[dict[str, Any]]:
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in states], dtype=np.uint64)
    numbers = np.arange(len(states))
    return list(pa.table(StateTable(model, layout).columns(numbers, numbers + 1, packed)).to_pylist())


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
    states = read(tmp_path, STATES)
    layout = Layout(graph.model.leaves)
    plain = [listed(graph.model.decode(layout.unpack(state))) for state in graph.states]
    assert {len(row["post"]["letter"]) for row in plain} >= {0, 2}
    assert [
        {**{name: row[name] for name in row if name in plain[0]}, "nothing": True} for row in states
    ] == plain
    assert "nothing" not in states[0]
    chosen = [t["parameters"]["m"] for t in read(tmp_path, TRANSITIONS) if t["action"] == "ping_once"]
    assert set(chosen) == {True}


def test_the_files_hold_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwater.checker import tables

    monkeypatch.setattr(tables, "_STATES_IN_FILE", 700)
    monkeypatch.setattr(tables, "ROWS", 300)
    graph = explore(models.scenario_model("truncation/kip-101", max_records=1), SearchOptions(workers=1))
    write(graph, tmp_path, 2, None)
    written = count_tables(tmp_path, graph.model, 0, None)
    states, transitions = read(tmp_path, STATES), read(tmp_path, TRANSITIONS)
    assert len(list((tmp_path / STATES).iterdir())) == -(-len(graph.states) // 700)
    assert (written.states, written.transitions) == (len(graph.states), len(graph.targets))
    assert [row["state"] for row in states] == list(range(len(graph.states)))
    assert [row["depth"] for row in states] == graph.depths().tolist()
    assert [row["source"] for row in transitions] == graph.sources.tolist()
    for name in ("weak_isr", "strong_isr"):
        holds = evaluated(graph, [graph.model.property(name).node])[0]
        assert [row[name] for row in states] == holds.tolist()
        assert written.violations[name] == (~holds).sum()
    for row, target, number in zip(transitions, graph.targets, graph.instances, strict=True):
        instance = graph.model.instances[number]
        assert row["target"] == target
        assert (row["action"], row["sentence"]) == (instance.action.name, instance.sentence)
        assert {k: v for k, v in row["parameters"].items() if v is not None} == dict(instance.parameters)


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
    states = read(tmp_path, STATES)
    fields = ("state_", "depth_", "depth__", "small")
    assert list(states[0]) == ["state", "depth", *fields, "small_"]
    assert [row["state_"] for row in states] == [0, 1, 2, 3]
    assert [(row["small"], row["small_"]) for row in states] == [(True, True)] * 3 + [(True, False)]
    assert "parameters" not in read(tmp_path, TRANSITIONS)[0]


def test_one_of_two_steps_to_a_state_is_the_shortest() -> None:
    pytest.importorskip("networkx")
    graph = explore(Model(Twice(), []), SearchOptions(workers=1))
    marked = [target for _, target, short in to_networkx(graph).edges(data="shortest") if short]
    assert len(graph.targets) == 2 * len(marked)
    assert sorted(marked) == [1, 2, 3]


def test_the_command(tmp_path: Path) -> None:
    out, result = tmp_path / "tables", tmp_path / "result.json"
    status, said = run(
        "truncation/kip-101", "--set", "max_records=1", "--out", str(out), "--json", str(result)
    )
    assert status == 0
    assert "9,841 states" in said
    about = json.loads(result.read_text())
    assert about == json.loads((out / "run.json").read_text())
    assert (about["states"], about["complete"]) == (len(read(out, STATES)), True)
    status, said = run("truncation/kip-101", "--out", str(out))
    assert status == 2
    status, said = run("truncation/kip-101", "--out", str(out), "--force", "--limit-states", "500", "--quiet")
    assert (status, said) == (3, "")
    about = json.loads((out / "run.json").read_text())
    states = read(out, STATES)
    assert (about["stopped_by"], about["states"]) == ("states", len(states))
    last = {row["state"] for row in states if row["depth"] == about["depth"]}
    assert not last & {row["source"] for row in read(out, TRANSITIONS)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["truncation/kip-101"],
        ["truncation/kip-102", "--out", "x"],
        ["truncation/kip-101", "--out", "x", "--set", "max_records=99"],
        ["truncation/kip-101", "--out", "x", "--spark-master", "local[1]"],
        ["truncation/kip-101", "--out", "x", "--checkpoint", "y"],
        ["truncation/kip-101", "--out", "x", "--resume"],
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
    """The rows of both tables, with states' contents instead of ids."""
    states = {row["state"]: {k: v for k, v in row.items() if k[0] != "_"} for row in read(place, STATES)}
    texts = {state: json.dumps(row | {"state": None}, sort_keys=True) for state, row in states.items()}
    steps = Counter[tuple[str, ...]]()
    for row in read(place, TRANSITIONS):
        source, target = row.pop("source"), row.pop("target")
        steps[texts[source], texts[target], json.dumps(row, sort_keys=True)] += 1
    return Counter(texts.values()), steps


# --- the directory of tables --------------------------------------------------------------------------


PART = "part-00000.parquet"
LEVEL = "level-00003-00001-0123456789ab.parquet"
SMALL = ("truncation/kip-101", "--set", "max_records=1", "--quiet")


def texts_of(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def tables(place: Path, text: str, *, force: bool = True) -> None:
    out = TableDirectory(str(place), force=force)
    out.clear()
    for table in (STATES, TRANSITIONS):
        (place / table).mkdir()
        (place / table / PART).write_text(text)
    out.finish({"text": text})


def whole(text: str) -> dict[str, str]:
    return {f"{STATES}/{PART}": text, f"{TRANSITIONS}/{PART}": text, ABOUT: f'{{\n  "text": "{text}"\n}}\n'}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the tables of an earlier run."""
    tables(tmp_path / "out", "one", force=False)
    return tmp_path / "out"


def refused(place: Path, *, force: bool = True) -> str:
    with pytest.raises(InputError) as wrong:
        tables(place, "two", force=force)
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


def test_new_tables_replace_earlier_ones(place: Path) -> None:
    assert texts_of(place) == whole("one")
    assert "--force replaces the tables in it" in refused(place, force=False)
    for table in (STATES, TRANSITIONS):
        (place / table / "part-00001.parquet").write_text("one")
        (place / table / LEVEL).write_text("one")
    for name in ("search.json", "level-00003.json"):
        (place / name).write_text("of Spark's search")
    (place / "notes.txt").write_text("mine")
    tables(place, "two")
    assert texts_of(place) == {**whole("two"), "notes.txt": "mine"}


def elsewhere(place: Path) -> None:
    (place / STATES).rename(place.parent / "elsewhere")
    (place / STATES).symlink_to(place.parent / "elsewhere")


def no_folder(place: Path) -> None:
    (place / TRANSITIONS / PART).unlink()
    (place / TRANSITIONS).rmdir()
    (place / TRANSITIONS).write_text("mine")


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link": (elsewhere, "states is no folder of tables"),
    "a file": (no_folder, "transitions is no folder of tables"),
    "another file": (lambda p: (p / STATES / "notes.txt").touch(), "states holds other files: notes.txt"),
    "another folder": (lambda p: (p / TRANSITIONS / "x").mkdir(), "transitions holds other files: x"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_are_left_alone(kind: str, place: Path) -> None:
    """The foreign file exists before the search or appears during it."""
    make, said = FOREIGN[kind]
    out = TableDirectory(str(place), force=True)
    make(place)
    before = texts_of(place.parent)
    with pytest.raises(InputError, match=said):
        out.clear()
    assert said in refused(place)
    assert texts_of(place.parent) == before


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_failed_run_leaves_no_tables(
    tmp_path: Path, wrong: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(explored: Any, directory: Path, *_: object) -> None:
        (directory / STATES).mkdir()
        (directory / STATES / PART).write_text("half")
        raise wrong

    monkeypatch.setattr("highwater.checker.tables.write", fail)
    status, said = run(*SMALL, "--out", tmp_path)
    if isinstance(wrong, OSError):
        assert (status, said) == (2, f"highwater: --out {tmp_path}: No space left on device\n")
    else:
        assert (status, said) == (130, "highwater: interrupted before the tables were complete\n")
    assert list(tmp_path.iterdir()) == []


# --- interruptions: complete tables or none, and a message --------------------------------------------


pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")
