"""A mutant equals an edit of the source, the engines agree on it, and planted errors are detected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.comparing.mutants import (
    MutantSearch,
    MutatedModel,
    levels_of,
    program_for,
    roots_of,
)
from highwater.checker.comparing.mutants import mutant_graph as graph_of
from highwater.checker.engines import reference
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.native.state_graph import LinkProgram
from highwater.checker.engines.native.state_graph import explore as graph_alone
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import LanguageError, Model, graph
from highwater.model.language.interpreter import BoundError
from tests.models import scenario_model
from tests.mutation import library
from tests.mutation.edited import NotEditableError, edited, loaded
from tests.mutation.small import at
from tests.slow import slow

_ALL = SearchOptions(workers=1, all_states=True)
Summary = tuple[Any, ...]


@pytest.fixture(scope="module")
def mutated() -> MutatedModel:
    """The library protocol with its mutants."""
    stated = library.Library
    return MutatedModel(stated({"most": 1}), stated.invariants, step_properties=stated.step_properties)


@pytest.fixture(scope="module")
def program(mutated: MutatedModel) -> LinkProgram:
    return program_for(mutated, Effort.QUICK)


def by_the_reference(model: Model) -> Summary:
    """A summary of the interpreter's search of a model."""
    try:
        found = reference.search(model, _ALL)
    except BoundError:
        return ("leaves its type",)
    violations = sorted((v.property, v.depth) for v in found.violations)
    return found.distinct_states, found.depth, found.generated_states, violations


def by_the_kernels(program: LinkProgram, number: int) -> Summary:
    """A summary of the native search of a mutant, using the machine code of all mutants."""
    with closing(levels_of(NativeLevels, program, _ALL, number)) as levels:
        try:
            found = MutantSearch(levels, frozenset(program.model.safety)).explore()
        except BoundError:
            return ("leaves its type",)
    violations = sorted((v.property, v.depth) for v in found.violations)
    return found.distinct_states, found.depth, found.generated_states, violations


@functools.cache
def of_mutant(mutated: MutatedModel, number: int) -> Summary:
    return by_the_reference(at(mutated, number))


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
            assert by_the_reference(model) == of_mutant(mutated, number), mutant
            compared += 1
    assert compared > 90 // every


def test_engines_agree_on_every_mutant(mutated: MutatedModel, program: LinkProgram) -> None:
    """Compares kernels that contain all mutants with the interpreter on each mutant."""
    for number, mutant in mutated.mutants.items():
        assert by_the_kernels(program, number) == of_mutant(mutated, number), mutant


def test_a_graph_is_that_of_the_mutant_alone(mutated: MutatedModel, program: LinkProgram) -> None:
    """The graph by the machine code of all mutants equals the graph by the mutant's own code."""
    names = ("level_starts", "offsets", "targets", "instances", "cut_offsets", "cut_instances")

    def arrays(explored: Callable[[], Explored]) -> list[Any] | None:
        try:
            found = explored()
        except BoundError:
            return None
        return [getattr(found, name).tolist() for name in names]

    for number in sorted(mutated.mutants)[::7]:
        alone = arrays(functools.partial(graph_alone, at(mutated, number), _ALL))
        assert alone == arrays(functools.partial(graph_of, program, number, _ALL)), number
