"""The tables: decoded columns against the plain decoder, files that are read back, and the command around them."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from checker import reference_graph
from checker.cli import cli
from checker.native.explored import explore
from checker.native.layout import Layout
from checker.networkx_graph import to_networkx
from checker.problems import InputError
from checker.search import SearchOptions
from model.language import Model
from tests import models, zoo

pa = pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from checker.tables import columns, files  # noqa: E402
from checker.tables.content import StateTable  # noqa: E402
from checker.tables.writing import write  # noqa: E402


def read(place: Path, table: str) -> Any:
    from pyarrow.dataset import dataset

    return dataset(place / table).to_table().to_pylist()


def run(*arguments: str) -> tuple[int, str]:
    """The command's exit status and output."""
    found = CliRunner().invoke(cli, ["states", *arguments])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


def rows_of(model: Model, states: list[Any]) -> list[dict[str, Any]]:
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in states], dtype=np.uint64)
    numbers = np.arange(len(states))
    table = StateTable(model, layout).rows(numbers, numbers + 1, numbers >= 0, numbers, numbers, packed)
    return list(table.to_pylist())


def undecoded(model: Model, states: list[Any]) -> list[Any]:
    """States whose columns are not what the plain decoder makes of them."""
    pairs = zip(states, rows_of(model, states), strict=True)
    return [s for s, row in pairs if any(row[k] != v for k, v in model.decode(s).items())]


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_columns_of_every_type(nodes: int) -> None:
    model = models.everything(nodes=nodes)
    assert undecoded(model, list(models.arbitrary_states(model, 500))) == []


def test_columns_of_the_replication_protocol() -> None:
    model = models.scenario_model("replication/standard-data-loss", late_fetches=1, metadata_in_flight=1)
    assert undecoded(model, list(models.arbitrary_states(model, 300))) == []


@pytest.mark.parametrize("part", ["_with_nulls", "_lists", "smallest"])
def test_a_decoder_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    honest = getattr(columns, part)
    wrong: dict[str, Any] = {
        "_with_nulls": lambda array, none: honest(array, ~none),
        "_lists": lambda lengths, elements: honest(np.roll(lengths, 1), elements),
        "smallest": lambda low, high: np.int8,
    }
    monkeypatch.setattr(columns, part, wrong[part])
    model = models.everything()
    states = list(models.arbitrary_states(model, 200))
    with contextlib.suppress(pa.ArrowInvalid, OverflowError, ValueError):  # found even earlier
        assert undecoded(model, states)


def test_the_files_hold_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checker.tables import writing

    monkeypatch.setattr(writing, "_STATES_IN_FILE", 700)
    monkeypatch.setattr(writing, "ROWS", 300)
    graph = explore(models.scenario_model("truncation/kip-101", max_records=1), SearchOptions(workers=1))
    written = write(graph, tmp_path, 2, None)
    states, transitions = read(tmp_path, files.STATES), read(tmp_path, files.TRANSITIONS)
    assert len(list((tmp_path / files.STATES).iterdir())) == -(-len(graph.states) // 700)
    assert (written.states, written.transitions) == (len(graph.states), len(graph.targets))
    assert [row["state"] for row in states] == list(range(len(graph.states)))
    assert [row["depth"] for row in states] == graph.depths().tolist()
    assert [row["steps"] for row in states] == np.diff(graph.offsets).tolist()
    assert [row["cut"] for row in states] == np.diff(graph.cut_offsets).tolist()
    assert sum(row["initial"] for row in states) == len(graph.model.initial)
    for name in ("weak_isr", "strong_isr"):
        holds = graph.evaluate(graph.model.property(name).node)
        assert [row[name] for row in states] == holds.tolist()
        assert written.violations[name] == (~holds).sum()
    for row, target, number in zip(transitions, graph.targets, graph.instances, strict=True):
        instance = graph.model.instances[number]
        assert row["target"] == target
        assert (row["action"], row["sentence"]) == (instance.action.name, instance.sentence)
        assert {k: v for k, v in row["parameters"].items() if v is not None} == dict(instance.parameters)
    reached = [row["target"] for row in transitions if row["shortest"]]
    assert sorted(reached) == [row["state"] for row in states if not row["initial"]]


def test_a_clash_of_names_and_no_parameters(tmp_path: Path) -> None:
    graph = explore(Model(zoo.Dice(), []), SearchOptions(workers=1))
    write(graph, tmp_path, 1, None)
    assert "parameters" not in read(tmp_path, files.TRANSITIONS)[0]
    taken = {"state"}
    from checker.tables.content import _free

    assert [_free("state", taken), _free("state", taken), _free("isr", taken)] == ["state_", "state__", "isr"]


def test_a_file_that_fails_has_no_name(tmp_path: Path) -> None:
    schema = pa.schema([("state", pa.int64())])
    with pytest.raises(OSError, match="full"), files.TableFile(tmp_path, "states", 0, schema):
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
    assert (about["states"], about["complete"]) == (len(read(out, files.STATES)), True)
    status, said = run("truncation/kip-101", "--out", str(out))
    assert status == 2
    status, said = run("truncation/kip-101", "--out", str(out), "--force", "--limit-states", "500", "--quiet")
    assert (status, said) == (3, "")
    about = json.loads((out / "run.json").read_text())
    states = read(out, files.STATES)
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
    found = reference_graph.explore(Model(zoo.Counters({"counters": 2, "top": 4}), []), SearchOptions())
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


def by_content(place: Path) -> tuple[set[str], set[str]]:
    """States and transitions, whatever the states' numbers and the shortest runs are."""
    names = {}
    for row in read(place, files.STATES):
        number = row.pop("state")
        names[number] = json.dumps(row, sort_keys=True)
    transitions = set()
    reached: dict[str, int] = {}
    for row in read(place, files.TRANSITIONS):
        row["source"], row["target"] = names[row["source"]], names[row["target"]]
        reached[row["target"]] = reached.get(row["target"], 0) + row.pop("shortest")
        transitions.add(json.dumps(row, sort_keys=True))
    assert all(reached.get(n, 0) == (not json.loads(n)["initial"]) for n in names.values())
    return set(names.values()), transitions


@pytest.mark.slow
@pytest.mark.usefixtures("_spark")
@pytest.mark.parametrize("limit", [None, 3000])
def test_both_engines_give_the_same_tables(tmp_path: Path, limit: int | None) -> None:
    from checker.spark.options import SparkOptions
    from checker.tables.spark import write as write_on_spark
    from tests.spark.conftest import MASTER

    model = models.scenario_model("truncation/kip-101", max_records=1)
    options = SearchOptions(workers=1, limit_states=limit, all_states=True)
    (tmp_path / "spark").mkdir()
    # Levels from 800 states on are the cluster's.
    found = write_on_spark(model, options, SparkOptions(MASTER, small=800), tmp_path / "spark", None)
    assert sorted(p.name for p in (tmp_path / "spark").iterdir()) == ["states", "transitions"]
    assert found.stopped_by == (None if limit is None else "states")
    write(explore(model, SearchOptions(workers=1)), tmp_path / "native", 1, None)
    states, transitions = by_content(tmp_path / "native")
    if limit is None:
        assert by_content(tmp_path / "spark") == (states, transitions)
        assert found.violations["strong_isr"] == sum(not json.loads(s)["strong_isr"] for s in states)
    else:
        assert {row["expanded"] for row in read(tmp_path / "spark", files.STATES)} == {True, False}
