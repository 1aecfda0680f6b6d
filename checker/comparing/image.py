"""A program that writes the models of scenarios, traced by the source of one revision, as JSON.

``python -I -c SOURCE ROOT`` reads requests from standard input, a line of JSON each: ``scenario`` is a name,
``parameters`` and ``rules`` override the scenario's, and ``proof`` true adds the helpers of a proof. It writes one line
of JSON for each request. ROOT comes first on ``sys.path``, so the Highwater in ROOT is imported. The program runs in a
process of its own, and depends on little that revisions may change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def image(model: Any, request: Any) -> dict[str, Any]:
    """A traced model and its request as plain data."""
    nodes = import_module(type(model).__module__.rpartition(".")[0] + ".graph").reachable(_roots(model))
    numbers = {node.id: i for i, node in enumerate(nodes)}

    def number(node: Any) -> int:
        return numbers[node.id]

    def condition(prop: Any, stated: Any) -> dict[str, Any]:
        # Older revisions have no goals.
        about = {"source": stated.source, "meaning": stated.meaning, "goal": getattr(stated, "goal", False)}
        return {"name": prop.name, **about, "node": number(prop.node), "premise": number(prop.premise)}

    def case(one: Any) -> list[Any]:
        return [number(one.premise), [number(g) for g in _goals(one)], dict(getattr(one, "parameters", {}))]

    def group(one: Any) -> list[Any]:
        when = _when(one)
        return [one.label, one.strong, sorted(one.instances), None if when is None else number(when)]

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
        "properties": [condition(p, p.invariant) for p in model.properties],
        "step_properties": [
            {**condition(p, p.stated), "asked": sorted(p.asked)}
            for p in getattr(model, "step_properties", [])
        ],
        "liveness": [
            {
                "name": p.name,
                "kind": str(p.liveness.kind),
                "source": p.liveness.source,
                "meaning": p.liveness.meaning,
                "cases": [case(one) for one in _cases(p)],
                "groups": [group(one) for one in p.groups],
            }
            for p in getattr(model, "liveness", [])
        ],
        "parameters": dict(request.parameters),
        "rules": {name: bool(on) for name, on in request.rules.items()},
        "sentences": {n: [r.source, r.sentence] for n, r in type(model.protocol).rules.items()},
        "symmetry": bool(request.symmetry),
        "deadlock": bool(request.deadlock),
    }


def _roots(model: Any) -> Iterator[Any]:
    """The expressions of a model. Older revisions have no step properties, liveness or fairness conditions."""
    for i in model.instances:
        yield from (part.node for part in (*i.guards, *i.writes.values(), *i.checks))
    for prop in (*model.properties, *getattr(model, "step_properties", [])):
        yield from (prop.node, prop.premise)
    for prop in getattr(model, "liveness", []):
        for case in _cases(prop):
            yield from (case.premise, *_goals(case))
        yield from (_when(group) for group in prop.groups if _when(group) is not None)


def _cases(prop: Any) -> Any:
    """The cases of a liveness property, one for each choice of its parameters. Older revisions have a single case."""
    return getattr(prop, "cases", [prop])


def _goals(case: Any) -> list[Any]:
    return list(case.goals) if hasattr(case, "goals") else [case.goal]


def _when(group: Any) -> Any:
    """The condition of a fair group; None in older revisions."""
    return getattr(group, "when", None)


def type_image(type_: Any) -> Any:
    """A type as plain data: the name of its kind, followed by its parts."""
    kind = type(type_).__name__
    match kind:
        case "BoolType":
            return [kind]
        case "IntType":
            return [kind, type_.low, type_.high, type_.bound]
        case "Index":
            return [kind, type_.name, type_.size]
        case "Enum":
            return [kind, type_.name, list(type_.members)]
        case "Set":
            return [kind, type_image(type_.index)]
        case "Option":
            return [kind, type_image(type_.content_type)]
        case "Array" | "MessageKind":
            return ["Array", type_image(type_.index), type_image(type_.element)]
        case "Seq":
            return [kind, type_image(type_.element), type_.maximum, type_.bound]
        case "Struct" | "Messages":
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
    requests = _module(parts, "scenarios.request", "asking.request", "request")

    for line in sys.stdin:
        try:
            wanted = json.loads(line)
            changes = [wanted[key] for key in ("parameters", "rules") if key in wanted]
            request = requests.Request.of(scenarios.find(wanted["scenario"]), requests.Overrides(*changes))
            if wanted.get("proof"):
                with suppress(ImportError):
                    solver = _module(parts, "engines.solver.helpers", "engines.solver.induction")
                    request = getattr(solver, "with_helpers", lambda same: same)(request)
            found = image(request.model(), request)
        except Exception as wrong:
            found = {"error": f"{type(wrong).__name__}: {wrong}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
