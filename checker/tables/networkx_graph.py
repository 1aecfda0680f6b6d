"""A small explored graph as a networkx graph, for its algorithms: paths, components, dominators, drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.checker.base.problems import InputError
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.interpreter import Interpreter

if TYPE_CHECKING:
    import networkx

MOST = 200_000
"""The most states and steps together; networkx keeps several Python objects for each."""


def to_networkx(explored: Explored, *, decoded: bool = False, most: int = MOST) -> networkx.MultiDiGraph:
    """The explored graph as a networkx graph: a node for each state, by its number, and an edge for each step.

    Nodes have ``depth`` and, with ``decoded``, the state's fields as ``state``. An edge's key is the instance's
    number. Edges have ``action``, ``sentence`` and ``shortest``; if the model has step properties, ``violates`` lists
    the step properties that the step violates. Raises InputError if the graph has more than ``most`` states and steps,
    or networkx is not installed.
    """
    states, steps = len(explored.states), len(explored.targets)
    if states + steps > most:
        raise InputError(
            f"{states:,} states and {steps:,} steps are too many for networkx (at most {most:,}); "
            "highwater states writes them as tables"
        )
    try:
        import networkx
    except ModuleNotFoundError:
        raise InputError(
            "an explored graph for networkx needs the package networkx: pip install 'highwater-checker[tables]'"
        ) from None
    model = explored.model
    graph = networkx.MultiDiGraph(protocol=model.protocol.name)
    for state, depth in enumerate(explored.depths().tolist()):
        graph.add_node(state, depth=depth)
        if decoded:
            graph.nodes[state]["state"] = model.decode(explored.scalars(state))
    words = [(instance.action.name, instance.sentence) for instance in model.instances]
    parents, first = explored.parents, explored.parent_instances
    ends = zip(explored.sources.tolist(), explored.targets.tolist(), explored.instances.tolist(), strict=True)
    interpreter, of_steps = Interpreter(model), bool(model.step_properties)
    for source, target, instance in ends:
        action, sentence = words[instance]
        shortest = bool(parents[target] == source and first[target] == instance)
        told: dict[str, object] = {"action": action, "sentence": sentence, "shortest": shortest}
        if of_steps:
            before = explored.scalars(source)
            after = interpreter.step(
                before, instance
            ).state  # with symmetry reduction the target may be a renaming of this state
            told["violates"] = [] if after is None else interpreter.broken(before, after)
        graph.add_edge(source, target, key=instance, **told)
    return graph
