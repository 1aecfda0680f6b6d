"""A program that writes the models of scenarios, traced by the source of one revision, as JSON.

``python -I -c SOURCE ROOT`` reads requests from standard input, a line of JSON each: ``scenario`` is a name,
``parameters`` and ``rules`` override the scenario's, and ``proof`` true adds the helpers of a proof. It writes one line
of JSON for each request. ROOT comes first on ``sys.path``, so the Highwater in ROOT is imported. The program runs in a
process of its own, and depends on little that revisions may change.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def image(model: Any, asked: Any) -> dict[str, Any]:
    """A traced model and its request as plain data."""
    graph = import_module(type(model).__module__.rpartition(".")[0] + ".graph")
    roots = []
    for instance in model.instances:
        roots += [g.node for g in instance.guards]
        roots += [w.node for w in instance.writes.values()]
        roots += [c.node for c in instance.checks]
    for prop in model.properties:
        roots += [prop.node, prop.premise]
    liveness, of_steps = getattr(model, "liveness", []), getattr(model, "step_properties", [])
    for prop in of_steps:
        roots += [prop.node, prop.premise]
    for prop in liveness:
        for case in _cases(prop):
            roots += [case.premise, *_goals(case)]
        roots += [group.when for group in prop.groups if getattr(group, "when", None) is not None]
    nodes = graph.reachable(roots)
    numbers = {node.id: i for i, node in enumerate(nodes)}

    def number(node: Any) -> int:
        return numbers[node.id]

    def group_image(group: Any) -> list[Any]:
        when = getattr(group, "when", None)  # which older revisions do not have
        own = sorted(group.instances)
        return [group.label, group.strong, own, None if when is None else number(when)]

    return {
        "protocol": model.protocol.name,
        "state": type_image(model.protocol.state),
        "initial": [list(state) for state in model.initial],
        "nodes": [[n.op, [numbers[a.id] for a in n.args], n.value, n.sort, n.low, n.high] for n in nodes],
        "actions": {
            a.name: {"says": a.says, "source": a.source, "meaning": a.meaning, "domains": dict(a.domains)}
            for a in model.actions
        },
        "instances": [
            {
                "action": i.action.name,
                "parameters": dict(i.parameters),
                "guards": [[g.name, number(g.node), g.place] for g in i.guards],
                "writes": [[leaf, number(w.node), w.place] for leaf, w in i.writes.items()],
                "checks": [[c.leaf, number(c.node), c.bound, c.message, c.place] for c in i.checks],
            }
            for i in model.instances
        ],
        "properties": [
            {
                "name": p.name,
                **_stated(p.invariant),
                "node": number(p.node),
                "premise": number(p.premise),
            }
            for p in model.properties
        ],
        "step_properties": [
            {
                "name": p.name,
                **_stated(p.stated),
                "node": number(p.node),
                "premise": number(p.premise),
                "asked": sorted(p.asked),
            }
            for p in of_steps
        ],
        "liveness": [
            {
                "name": p.name,
                "kind": str(p.liveness.kind),
                "source": p.liveness.source,
                "meaning": p.liveness.meaning,
                "cases": [
                    [number(c.premise), [number(g) for g in _goals(c)], dict(getattr(c, "parameters", {}))]
                    for c in _cases(p)
                ],
                "groups": [group_image(g) for g in p.groups],
            }
            for p in liveness
        ],
        "parameters": dict(asked.parameters),
        "rules": {name: bool(on) for name, on in asked.rules.items()},
        "sentences": {n: [r.source, r.sentence] for n, r in type(model.protocol).rules.items()},
        "symmetry": bool(asked.symmetry),
        "deadlock": bool(asked.deadlock),
    }


def _stated(stated: Any) -> dict[str, Any]:
    """A property's source (its rule numbers) and meaning, and True if it is a goal. Older revisions have no goals."""
    return {"source": stated.source, "meaning": stated.meaning, "goal": getattr(stated, "goal", False)}


def _cases(prop: Any) -> Any:
    """The cases of a liveness property, one for each choice of its parameters. Older revisions have a single case."""
    return getattr(prop, "cases", [prop])


def _goals(case: Any) -> list[Any]:
    return list(case.goals) if hasattr(case, "goals") else [case.goal]


def type_image(type_: Any) -> Any:
    """A type as plain data: the name of its kind, followed by its parts."""
    kind = type(type_).__name__
    if kind == "BoolType":
        return [kind]
    if kind == "IntType":
        return [kind, type_.low, type_.high, type_.bound]
    if kind == "Index":
        return [kind, type_.name, type_.size]
    if kind == "Enum":
        return [kind, type_.name, list(type_.members)]
    if kind == "Set":
        return [kind, type_image(type_.index)]
    if kind == "Option":
        return [kind, type_image(type_.content_type)]
    if kind in ("Array", "MessageKind"):
        kind = "Array"
        return [kind, type_image(type_.index), type_image(type_.element)]
    if kind == "Seq":
        return [kind, type_image(type_.element), type_.maximum, type_.bound]
    if kind in ("Struct", "Messages"):
        return ["Struct", type_.name, [[name, type_image(inner)] for name, inner in type_.fields.items()]]
    raise TypeError(f"the type {type_} is not known")


def _module(parts: str, *names: str) -> Any:
    """The first of the modules ``names`` of ``checker`` that the revision has: module names differ by revision."""
    for name in names:
        with suppress(ModuleNotFoundError):
            if find_spec(f"{parts}checker.{name}"):
                return import_module(f"{parts}checker.{name}")
    raise ModuleNotFoundError(f"checker has none of {', '.join(names)}")


def main(root: str) -> None:
    """Write an image or an error for each request on standard input."""
    sys.path.insert(0, root)
    # In older revisions, ``model`` and ``checker`` were top-level packages.
    alone = Path(root, "model", "language").is_dir() and not Path(root, "highwater").is_dir()
    parts = "" if alone else "highwater."
    scenarios = _module(parts, "scenarios.scenario_files", "asking.scenarios", "scenarios")
    request = _module(parts, "scenarios.request", "asking.request", "request")

    for line in sys.stdin:
        try:
            said = json.loads(line)
            changes = [said[key] for key in ("parameters", "rules") if key in said]
            asked = request.Request.of(scenarios.find(said["scenario"]), request.Overrides(*changes))
            if said.get("proof"):
                with suppress(ImportError):
                    solver = _module(parts, "engines.solver.helpers", "engines.solver.induction")
                    asked = getattr(solver, "with_helpers", lambda same: same)(asked)
            found = image(asked.model(), asked)
        except Exception as wrong:
            found = {"error": f"{type(wrong).__name__}: {wrong}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
