"""The guards and branches of a model's actions, each with its line in the protocol's source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.model.language import graph
from highwater.model.language.graph import Node
from highwater.model.language.model import Instance, Model, parameter_values, trace_instances
from highwater.model.language.tracing import guards_so_far
from highwater.model.language.values import watching

GUARD, BRANCH = "guard", "branch"


@dataclass(frozen=True)
class Site:
    """A place in the source: a guard by its name, or a ``where``. ``place`` is ``file:line``."""

    kind: str
    place: str
    name: str
    action: str


@dataclass(frozen=True)
class SiteQuestion:
    """What is asked of a site for one choice of an action's parameters: three expressions over a state.

    Of a guard: it holds; it refuses; it alone refuses. Of a branch, in states that the guards stated before it let
    through: its condition holds; it does not; and nothing (false).
    """

    site: Site
    nodes: tuple[Node, Node, Node]


def questions(model: Model) -> Iterator[SiteQuestion]:
    """Everything to ask of a model's actions, instance by instance."""
    for instance in model.instances:
        yield from _guards(instance)
        yield from _branches(model, instance)


def _guards(instance: Instance) -> Iterator[SiteQuestion]:
    name, guards = instance.action.name, instance.guards
    for number, guard in enumerate(guards):
        others = graph.all_(g.node for i, g in enumerate(guards) if i != number)
        refuses = graph.not_(guard.node)
        site = Site(GUARD, guard.place or name, guard.name, name)
        yield SiteQuestion(site, (guard.node, refuses, graph.and_(refuses, others)))


def _branches(model: Model, instance: Instance) -> Iterator[SiteQuestion]:
    """Trace the action once more, and note the condition of every ``where`` that is not known while tracing."""
    found: dict[tuple[str, int], SiteQuestion] = {}
    name = instance.action.name

    def watch(condition: Node, where: str | None) -> None:
        if condition.is_const or where is None or (where, condition.id) in found:
            return
        before = graph.all_(g.node for g in guards_so_far())
        nodes = (graph.and_(before, condition), graph.and_(before, graph.not_(condition)), graph.FALSE)
        found[where, condition.id] = SiteQuestion(Site(BRANCH, where, "where", name), nodes)

    choice = {
        parameter: next(
            v for v in parameter_values(model.protocol, instance.action, parameter) if v[1] == value
        )
        for parameter, value in instance.parameters.items()
        if parameter in instance.action.domains
    }
    with watching(watch):
        for _ in trace_instances(model.protocol, model.leaves, model.inputs, instance.action, choice):
            pass
    yield from found.values()
