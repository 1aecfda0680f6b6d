"""Mutants: each equals an edit of the source, the engines agree; ``highwater mutate``: output, JSON, cache."""

from __future__ import annotations

import functools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from highwater import checker
from highwater.checker.commands.mutate import status_of
from highwater.checker.comparing import mutants, mutation
from highwater.checker.comparing.mutants import (
    EQUIVALENT,
    HOLDS,
    KILLED,
    LEAVES,
    LIMIT,
    NOT_COMPARED,
    NOTICED,
    SAME_COUNTS,
    SURVIVED,
    VERDICTS,
    VIOLATED,
    Examination,
    MutantResult,
    MutatedModel,
    Record,
    counts_of,
    program_for,
)
from highwater.checker.comparing.mutation import (
    Findings,
    MutationRun,
    Task,
    TaskResult,
    as_json,
    lines,
    perform,
    source_of,
)
from highwater.checker.engines import cache, reference
from highwater.checker.engines.native.program import roots_of
from highwater.checker.engines.native.state_graph import LinkProgram
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import LanguageError, graph
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, interpreter_of
from highwater.model.language.model import Model
from highwater.model.language.mutation import Mutant
from tests.checker.schema import problems
from tests.command import highwater
from tests.models import scenario_model
from tests.mutation import library
from tests.mutation.conftest import small_register
from tests.mutation.edited import NotEditableError, edited, loaded
from tests.mutation.small import COUNTER, LAMP, at
from tests.slow import slow

SCHEMA = json.loads((Path(checker.__file__).parent / "comparing/mutation.schema.json").read_text())


def in_this_process(tasks: Sequence[Callable[[], Task]], processes: int) -> Iterator[tuple[int, TaskResult]]:
    """Perform tasks as ``distribute`` does. The messages of an interrupted task are yielded, too."""
    for number, make in enumerate(tasks):
        messages: list[TaskResult] = []
        try:
            perform(make(), messages.append)
        finally:
            yield from ((number, message) for message in messages)


def compared(*paths: Path, **options: Any) -> Findings:
    """The results of a run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutation, "distribute", in_this_process)
        return MutationRun([scenario_files.find(str(path)) for path in paths], **options).run()


def verdicts(found: Findings) -> dict[tuple[str, str, str], str]:
    """(kind, text, change) of each mutant → its verdict."""
    return {(r.mutant.kind, source_of(r.mutant), r.mutant.change): r.verdict for r in found.records.values()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return compared(small_register(tmp_path_factory.mktemp("register")))


def test_the_command_prints_a_table_and_writes_json_by_its_schema(register: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = highwater("mutate", register, "--workers", 1, "--json", out)
    assert result.status == 0
    content = json.loads(out.read_text())
    assert problems(content, SCHEMA) == []
    counts = Counter(m["verdict"] for m in content["mutants"])
    assert content["counts"] == {v: counts[v] for v in VERDICTS}
    assert f"{len(content['mutants'])} mutants of 1 scenario:" in result.output
    listed = [line for line in result.output.splitlines() if line.startswith("       ")]
    assert len(listed) == counts[NOTICED]
    assert all(f"] {NOTICED}: " in line for line in listed)
    name = "every live replica has it"
    killed = next(m for m in content["mutants"] if (m["name"], m["change"]) == (name, "dropped"))
    assert killed["verdict"] == KILLED
    assert killed["results"][0]["property"] == "no_acknowledged_write_is_lost"
    assert killed["results"][0]["depth"] == 4
    again = highwater("mutate", register, "--workers", 1, "--quiet")
    assert again.status == 0
    assert again.output.count("\n") == 1


def test_mutants_are_killed_by_properties_or_noticed_by_counts(whole: Findings) -> None:
    found = verdicts(whole)
    assert found["guard", 'require("every live replica has it", holds)', "dropped"] == KILLED
    assert found["write", "s.next.acknowledged", "dropped"] == NOTICED
    assert found["operation", "s.stored[to] < s.stored[s.leader]", "<: <="] == NOTICED


def test_a_later_scenario_skips_the_mutants_that_are_killed(register: Path) -> None:
    second = register.with_name("second.toml")
    second.write_text(register.read_text())
    records = compared(register, second).records.values()
    assert {len(r.results) for r in records if r.verdict == KILLED} == {1}
    assert {len(r.results) for r in records if r.verdict != KILLED} == {2}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_another_limit_searches_again(register: Path) -> None:
    first = compared(register, reuse=True, limit_states=3)
    assert SURVIVED in verdicts(first).values()
    assert SURVIVED not in verdicts(compared(register, reuse=True)).values()


@pytest.mark.usefixtures("own_cache")
def test_a_changed_protocol_is_searched_again(register: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared(register)
    source = register.with_suffix(".py")
    text = source.read_text()
    source.write_text(text.replace("s.acknowledged < last", "s.acknowledged <= last"))
    changed = verdicts(compared(register, reuse=True))
    assert ("operation", "s.acknowledged <= last", "<=: <") in changed
    monkeypatch.setattr(mutants.Examination, "safety", lambda *_: pytest.fail("compared again"))
    assert verdicts(compared(register, reuse=True)) == changed
    with pytest.raises(pytest.fail.Exception, match="compared again"):
        compared(register)
    expected = "[expect]\nviolated = ['no_acknowledged_write_is_lost']\n"
    register.write_text(register.read_text() + expected)
    with pytest.raises(pytest.fail.Exception, match="compared again"):
        compared(register, reuse=True)


@pytest.mark.usefixtures("own_cache")
def test_an_interrupted_run_reports_and_keeps_its_results(
    register: Path, whole: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, numbers = mutants.Examination._searched, list[int]()

    def interrupted(*arguments: Any) -> Any:
        numbers.append(arguments[2])
        if len(numbers) == 6:
            raise KeyboardInterrupt
        return searched(*arguments)

    monkeypatch.setattr(mutants.Examination, "_searched", interrupted)
    found = compared(register)
    assert found.interrupted
    assert status_of(found) == 130
    assert any("interrupted" in line for line in lines(found, full=False, width=80))
    before = set(numbers[:5])
    assert verdicts(compared(register, reuse=True)) == verdicts(whole)
    assert before.isdisjoint(numbers[6:])


def test_only_compares_the_mutants_of_an_action_or_a_line(register: Path) -> None:
    by_action = compared(register, only=("acknowledge",))
    assert {a for r in by_action.records.values() for a in r.actions} == {"acknowledge"}
    line = next(r.mutant.place for r in by_action.records.values() if r.mutant.kind == "guard")
    by_line = compared(register, only=(line,))
    assert {r.mutant.place for r in by_line.records.values()} == {line}
    assert set(by_line.records) < set(by_action.records)


def test_a_scenario_is_left_out_if_the_protocol_fails_its_expectation(register: Path) -> None:
    text = register.read_text()
    register.write_text(f"{text}[rules]\nwait_for_all = false\n")
    found = compared(register)
    assert "left out: the protocol itself violates other properties" in found.notes[0]
    assert found.left_out
    found.records.clear()
    assert status_of(found) == 3


def lamp(directory: Path, text: str, scenario: str = "") -> Path:
    (directory / "lamp.py").write_text(text)
    (directory / "lamp.toml").write_text(f'protocol = "lamp.py"\n{scenario}')
    return directory / "lamp.toml"


def test_liveness_kills_mutants_that_only_counts_notice_without_it(tmp_path: Path) -> None:
    scenario = lamp(tmp_path, LAMP, 'properties = ["it_gets_light"]\n')
    found = compared(scenario)
    assert {mutant for mutant, verdict in verdicts(found).items() if verdict == KILLED} == {
        ("guard", 'require("it is off", ~s.on)', "negated"),
        ("operation", "~s.on", "~: dropped"),
        ("write", "s.next.on", "dropped"),
    }
    assert as_json(found)["counts"][SURVIVED] == 1
    assert problems(as_json(found), SCHEMA) == []
    assert KILLED not in verdicts(compared(scenario, liveness=False)).values()


# --- the four verdicts --------------------------------------------------------------------------------


def examination(directory: Path, source: str, name: str, scenario: str = "") -> Examination:
    """The examination of a scenario outside of the project."""
    (directory / f"{name}.py").write_text(source)
    file = directory / f"{name}.toml"
    file.write_text(f'protocol = "{name}.py"\n{scenario}')
    return Examination(asked(str(file)))


def results_of(found: Examination, limit_states: int | None = None) -> dict[int, MutantResult]:
    results: dict[int, MutantResult] = {}
    found.safety(found.mutants, results.__setitem__, limit_states)
    assert results.keys() == found.mutants.keys()
    return results


def named(found: Examination, results: dict[int, MutantResult]) -> dict[tuple[str, str, str], Any]:
    """The results as (kind, text, change) → verdict and reason."""
    return {(m.kind, m.name or source_of(m), m.change): _plain(results[n]) for n, m in found.mutants.items()}


def _plain(result: MutantResult) -> tuple[Any, ...]:
    if result.kind == NOTICED:
        return NOTICED, result.count, result.expected, result.found
    return tuple(x for x in (result.kind, result.how, result.property, result.depth) if x is not None)


def test_a_limit_ends_the_comparison(tmp_path: Path) -> None:
    """Within the limit, only violations and smaller state counts are detected."""
    found = examination(tmp_path, LAMP, "lamp")
    whole, some = named(found, results_of(found)), named(found, results_of(found, limit_states=6))
    assert whole["guard", "it is on", "dropped"] == (KILLED, VIOLATED, "it_is_seen_by_its_light", 2)
    assert whole["branch", "where(s.on, Side.LEFT, Side.RIGHT)", "where: swapped"] == (SURVIVED, SAME_COUNTS)
    assert {verdict for verdict, *_ in whole.values()} == {KILLED, NOTICED, EQUIVALENT, SURVIVED}
    for mutant, (verdict, *why) in whole.items():
        if verdict == NOTICED and why[0] == "distinct_states" and why[2] <= 6:
            assert some[mutant] == (NOTICED, "distinct_states", None, why[2])
        else:
            assert some[mutant] == (whole[mutant] if verdict == KILLED else (SURVIVED, LIMIT))


def test_an_expected_violation_that_does_not_come(tmp_path: Path) -> None:
    """The protocol's search stops at the violation; mutants without it may use all states."""
    text = LAMP.replace("return ~s.seen | s.on", "return ~s.seen")
    found = examination(tmp_path, text, "lamp", '[expect]\nviolated = ["it_is_seen_by_its_light"]\n')
    plain = named(found, results_of(found))
    for mutant in (("write", "s.next.seen", "dropped"), ("write", "s.next.on", "dropped")):
        assert plain[mutant][:3] == (KILLED, HOLDS, "it_is_seen_by_its_light")
    assert plain["guard", "it is on", "dropped"] == (NOTICED, "distinct_states", 6, 4)
    assert plain["operation", "s.seen & s.on", "and: left only"] == (EQUIVALENT,)


def test_steps_that_only_one_count_or_none_shows(tmp_path: Path) -> None:
    """One mutant disables a step that was pruned; another takes another instance between the same states."""
    found = examination(tmp_path, COUNTER, "counter", "properties = []\n")
    plain = named(found, results_of(found))
    assert plain["operation", "s.count <= 3", "<=: <"] == (NOTICED, "cut.top", 6, 4)
    assert plain["operation", "s.side == side", "==: !="] == (SURVIVED, SAME_COUNTS)


def steps_of(model: MutatedModel) -> dict[Scalars, tuple[int, list[Any]]]:
    """Each reachable state of the protocol, without the mutant's fields: its depth and its steps, breadth first."""
    found = dict[Scalars, tuple[int, list[Any]]]()
    level, depth = {state[: model.own_leaves] for state in model.initial}, 1
    while level:
        found |= {state: (depth, _steps(model, state, 0)) for state in level}
        reached = {step for state in level for _, step in found[state][1] if isinstance(step, tuple)}
        level, depth = reached - found.keys(), depth + 1
    return found


def _steps(model: MutatedModel, state: Scalars, mutant: int) -> list[Any]:
    interpreter, found = interpreter_of(model), list[Any]()
    whole = (*state, *model.constants(mutant))
    for number in interpreter.enabled(whole):
        name = str(model.instances[number])
        try:
            step = interpreter.step(whole, number)
        except BoundError:
            found.append((name, "leaves its type"))
        else:
            found.append((name, step.cut or (step.state and step.state[: model.own_leaves])))
    return sorted(found, key=lambda one: one[0])


def by_the_reference(model: Model, differs: int | None, counts: dict[str, int]) -> tuple[Any, ...]:
    """The verdict on a mutant by definition, from the interpreter's search."""
    if differs is None:
        return (EQUIVALENT,)
    try:
        result = reference.search(model, SearchOptions(workers=1, stop_at_first=True))
        if result.violations:
            depth, name = min((v.depth, v.property) for v in result.violations)
            return KILLED, VIOLATED, name, depth
    except BoundError:
        return KILLED, LEAVES
    own = counts_of(result)
    for count, expected in counts.items():
        if own[count] != expected:
            return NOTICED, count, expected, own[count]
    return SURVIVED, SAME_COUNTS


@pytest.mark.parametrize("properties", ["", "properties = []\n"], ids=["with properties", "without"])
def test_every_mutant_of_the_library(tmp_path: Path, properties: str) -> None:
    """More than a hundred mutants, with a limit that no search reaches."""
    shutil.copy(library.__file__, tmp_path / "library.py")
    source = Path(library.__file__).read_text()
    found = examination(tmp_path, source, "library", f"{properties}[parameters]\nmost = 1\n")
    model = found.model
    plain, counts = steps_of(model), counts_of(reference.search(at(model, 0), SearchOptions(workers=1)))
    for number, result in results_of(found).items():
        others = (depth for state, (depth, steps) in plain.items() if _steps(model, state, number) != steps)
        differs = next(others, None)
        assert result.differs == differs, found.mutants[number]
        expected = by_the_reference(at(model, number), differs, counts)
        assert _plain(result)[: len(expected)] == expected, found.mutants[number]


def test_verdicts_over_several_scenarios() -> None:
    """Kills take precedence over count differences, and one difference rules out equivalence."""
    mutant = Mutant("model/x.py:1", 1, (0, 1), "act", "guard", "dropped", "a guard", "")
    cases = {
        (): NOT_COMPARED,
        (EQUIVALENT, EQUIVALENT): EQUIVALENT,
        (EQUIVALENT, SURVIVED): SURVIVED,
        (SURVIVED, NOTICED, EQUIVALENT): NOTICED,
        (NOTICED, EQUIVALENT, KILLED, SURVIVED): KILLED,
    }
    for kinds, verdict in cases.items():
        results = {(number, "s"): MutantResult(kind) for number, kind in enumerate(kinds)}
        record = Record(mutant, "x", results=results)
        assert record.verdict == verdict
        assert len(record.deciding) == Counter(kinds)[verdict]


# --- a mutant equals an edit of the source ------------------------------------------------------------


_ALL = SearchOptions(workers=1, all_states=True)
Summary = tuple[Any, ...]


@pytest.fixture(scope="module")
def mutated() -> MutatedModel:
    """The library protocol with its mutants."""
    stated = library.Library
    return MutatedModel(stated({"most": 1}), stated.invariants, step_properties=stated.step_properties)


@pytest.fixture(scope="module")
def program(mutated: MutatedModel) -> LinkProgram:
    return program_for(mutated)


def steps_by_the_reference(model: Model) -> Summary:
    """A summary of the interpreter's search of a model."""
    try:
        found = reference.search(model, _ALL)
    except BoundError:
        return ("leaves its type",)
    violations = sorted((v.property, v.depth) for v in found.violations)
    return found.distinct_states, found.depth, found.generated_states, violations


@functools.cache
def of_mutant(mutated: MutatedModel, number: int) -> Summary:
    return steps_by_the_reference(at(mutated, number))


@pytest.mark.parametrize("name", ["truncation/kip-320", "zookeeper/large-three-brokers"])
def test_mutant_0_is_the_unchanged_protocol(name: str) -> None:
    """The instances that no mutant changes have the expressions of the protocol's own model."""
    plain = scenario_model(name)
    mutated = MutatedModel(plain.protocol, [p.invariant for p in plain.properties])
    own = {str(i): i for a in plain.actions for i in mutated.of_action(a.name, changed=False)}
    assert own.keys() == {str(i) for i in plain.instances}
    assert not any(mutated.constants(0))
    for instance in plain.instances:
        assert roots_of(own[str(instance)]) == roots_of(instance)


def test_properties_have_no_mutants(mutated: MutatedModel) -> None:
    """Properties keep their expressions even if they call functions that have mutants."""
    nodes = graph.reachable(n for p in mutated.properties for n in (p.node, p.premise))
    assert mutated.selector not in nodes
    assert mutated.selector in graph.reachable(n for i in mutated.instances for n in roots_of(i))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=slow("every mutant; fast for one in four"))])
def test_a_mutant_is_an_edit_of_the_text(mutated: MutatedModel, tmp_path: Path, every: int) -> None:
    """The edited protocol has the same states, steps and violations as the mutant."""
    source, compared = Path(library.__file__).read_text(), 0
    for number, mutant in list(mutated.mutants.items())[::every]:
        path = tmp_path / f"edited_{number}.py"
        with suppress(NotEditableError, LanguageError):  # no edit, or the language refuses the edited source
            path.write_text(edited(source, mutant))
            stated = loaded(path, f"edited_{number}").Library
            model = Model(stated({"most": 1}), stated.invariants, step_properties=stated.step_properties)
            assert steps_by_the_reference(model) == of_mutant(mutated, number), mutant
            compared += 1
    assert compared > 60 // every
