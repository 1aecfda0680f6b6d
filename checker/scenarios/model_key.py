"""Keys of models: the one definition of "the same question", before and after a model is traced.

``request_key`` names a request whose protocol comes with the checker: the same sources and settings trace the same
model. ``model_key`` names a traced model: all that a search can report, and the order in which it looks.
``Fingerprints`` name behaviour alone: they do not depend on names, or on how a thing is written. Two expressions have
one fingerprint where they differ only by the order or grouping of operands, by De Morgan's laws, or by writing
``a < 3`` as ``a <= 2``. The place of a scalar in the state is part of it. Equal fingerprints mean equal behaviour;
different ones mean nothing. ``engine_key`` names the code that explores and proves.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import highwater
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.request import Request
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.graph import INT, Node
from highwater.model.language.liveness import TracedLiveness
from highwater.model.language.model import Instance, Model, Property
from highwater.model.language.step_properties import TracedStepProperty

named = True
"""Whether requests have names; tests, which change code while it runs, have none."""
_BEFORE = time.time() - 10
"""A file that changed later may differ from the code that this process runs."""


def request_key(request: Request) -> bytes | None:
    """A digest of all that tracing a request depends on; None where there is more, or it may have changed meanwhile."""
    if not named or request.outside or not _comes_with_the_checker(request):
        return None
    source = _source()
    if source is None:
        return None
    properties = (request.invariants, request.step_properties, request.liveness, request.goals)
    asked = (
        request.scenario.definition.name,
        sorted(request.parameters.items()),
        sorted(request.rules.items()),
        [[p.name for p in kind] for kind in properties],
        (request.symmetry, request.deadlock),
    )
    return hashlib.sha256(source + repr(asked).encode()).digest()


def _comes_with_the_checker(request: Request) -> bool:
    """Whether protocol and properties are those of the catalogue, and nobody's own file was executed."""
    definition = request.scenario.definition
    if definition.name not in registry.NAMES or any(m.startswith(catalogue.OWN_FILE) for m in sys.modules):
        return False
    all_ = stated(definition.name)
    kinds = (all_.invariants, all_.step_properties, all_.liveness, all_.helpers, all_.helper_steps)
    known = {id(p) for kind in (*kinds, all_.reachable) for p in kind}
    asked = (*request.invariants, *request.step_properties, *request.liveness, *request.goals)
    return definition.protocol is registry.protocol_of(definition.name) and all(id(p) in known for p in asked)


@functools.cache
def _source() -> bytes | None:
    """A digest of the sources and of Python; None where there are none, or they changed since this process began."""
    try:
        digest, changed = digest_of(Path(highwater.__file__).parent)
    except OSError:
        return None
    return digest if 0 < changed < _BEFORE else None


def digest_of(package: Path) -> tuple[bytes, float]:
    """A digest of all that tracing can depend on, and when any of it was changed last; 0 where there is nothing."""
    digest = hashlib.sha256(repr((sys.version, sys.flags.optimize)).encode())
    changed = 0.0
    for part in ("checker", "invariants", "model"):
        for folder, inner, names in os.walk(package / part):
            inner[:] = sorted(name for name in inner if name != "__pycache__")
            # The request has the content of a scenario's file.
            kinds = ".py" if os.path.basename(folder) == "scenarios" else (".py", ".toml")
            for name in sorted(name for name in names if name.endswith(kinds)):
                path = f"{folder}/{name}"
                with open(path, "rb", buffering=0) as file:
                    # Not the time of the content, which the writer can choose.
                    changed = max(changed, os.fstat(file.fileno()).st_ctime)
                    content = file.read()
                digest.update(f"{path.removeprefix(str(package))}\n{len(content)}\n".encode() + content)
    return digest.digest(), changed


_GROUPED = {"and", "or", "add", "mul", "union", "intersection", "min", "max"}
"""Operations whose operands may be grouped and ordered in any way."""


class Fingerprints:
    """Fingerprints of nodes, each computed once."""

    def __init__(self) -> None:
        self._key: dict[int, str] = {}
        self._parts: dict[tuple[int, bool], tuple[str, ...]] = {}

    def node(self, root: Node) -> str:
        """The fingerprint of an expression."""
        stack = [root]
        while stack:
            node = stack[-1]
            if unknown := [a for a in node.args if a.id not in self._key]:
                stack += unknown
            else:
                if node.id not in self._key:
                    self._key[node.id] = self._of(node)
                stack.pop()
        return self._key[root.id]

    def instance(self, instance: Instance) -> str:
        """The fingerprint of an action with its parameters fixed: when it is enabled, and what it does."""
        writes = [f"{leaf}={self.node(w.node)}" for leaf, w in sorted(instance.writes.items())]
        checks = sorted(f"{self.node(c.node)}:{c.bound is not None}" for c in instance.checks)
        return _digest("instance", self.node(instance.enabled), *writes, "checks", *checks)

    def action(self, instances: Iterable[Instance]) -> str:
        """The fingerprint of an action by all of its instances."""
        return _digest("action", *sorted(self.instance(i) for i in instances))

    def property(self, found: Property) -> str:
        """The fingerprint of a property: its condition and its premise."""
        return _digest("property", self.node(found.node), self.node(found.premise))

    def step_property(self, found: TracedStepProperty) -> str:
        """The fingerprint of a property of steps: its condition and its premise."""
        return _digest("step property", self.node(found.node), self.node(found.premise))

    def liveness(self, model: Model, found: TracedLiveness) -> str:
        """The fingerprint of a liveness property: premise and goal, and which steps are fair, and how."""
        groups = sorted(
            _digest(
                str(g.strong),
                *sorted(self.instance(model.instances[i]) for i in g.instances),
                *(["when", self.node(g.when)] if g.when is not None else []),
            )
            for g in found.groups
        )
        cases = [[self.node(c.premise), *map(self.node, c.goals)] for c in found.cases]
        said = cases[0] if len(cases) == 1 else sorted(_digest("case", *case) for case in cases)
        return _digest("liveness", str(found.liveness.kind), *said, *groups)

    def model(self, model: Model, *options: object) -> str:
        """The fingerprint of a whole model: its scalars, initial states, actions and properties."""
        return _digest(
            "model",
            *(f"{leaf.sort}:{leaf.low}:{leaf.high}" for leaf in model.leaves),
            *map(str, sorted(model.initial)),
            *sorted(self.action(own) for own in by_action(model).values()),
            *sorted(self.property(p) for p in model.properties),
            *sorted(self.step_property(p) for p in model.step_properties),
            *sorted(self.liveness(model, p) for p in model.liveness),
            *map(str, options),
        )

    # --- one node ---------------------------------------------------------------------------------

    def _of(self, node: Node) -> str:
        if node.op in ("const", "input"):
            return _digest(node.op, node.sort, str(node.value))
        if node.op == "not":
            return _negated(self._key[node.args[0].id])
        if node.op == "and":
            return _digest("and", *self._conjuncts(node, True))
        if node.op == "or":  # not (not a and not b)
            return _negated(_digest("and", *self._conjuncts(node, False)))
        if node.op in _GROUPED:
            return _digest(node.op, *self._operands(node))
        keys = [self._key[a.id] for a in node.args]
        if node.op == "eq":
            keys.sort()
        if node.op == "lt" and node.args[0].is_const:  # 2 < a is not (a < 3)
            after = _digest("const", INT, str(node.args[0].value + 1))
            return _negated(_digest("lt", keys[1], after))
        return _digest(node.op, *keys)

    def _conjuncts(self, node: Node, positive: bool) -> tuple[str, ...]:
        """The conjuncts of a node (or, not positive, of its negation), each once, in order."""
        if node.op == "not":
            return self._conjuncts(node.args[0], not positive)
        if node.op == ("and" if positive else "or"):
            known = self._parts.get((node.id, positive))
            if known is None:
                parts = {part for a in node.args for part in self._conjuncts(a, positive)}
                known = self._parts[node.id, positive] = tuple(sorted(parts))
            return known
        key = self._key[node.id]
        return (key if positive else _negated(key),)

    def _operands(self, node: Node) -> tuple[str, ...]:
        """The operands of a chain of one operation, in order; each once where once or twice is the same."""
        known = self._parts.get((node.id, True))
        if known is None:
            parts = [
                part
                for a in node.args
                for part in (self._operands(a) if a.op == node.op else (self._key[a.id],))
            ]
            known = tuple(sorted(parts if node.op in ("add", "mul") else set(parts)))
            self._parts[node.id, True] = known
        return known


KEPT = Fingerprints()
"""Those of this process: an expression is one object in it, and most of one model's are another's too."""


def _negated(key: str) -> str:
    return key[1:] if key.startswith("!") else "!" + key


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


def by_action(model: Model) -> dict[str, list[Instance]]:
    """The instances of each action that has some."""
    found: dict[str, list[Instance]] = {}
    for instance in model.instances:
        found.setdefault(instance.action.name, []).append(instance)
    return found


def model_key(model: Model, *options: object) -> str:
    """A traced model's key: its fingerprint, and the names of its instances and properties in their order."""
    names = [*model.safety, *(p.name for p in model.liveness)]
    return json.dumps([KEPT.model(model, *options), list(map(str, model.instances)), names])


def engine_key() -> str:
    """A digest of the engines, the language and their libraries: results of an unchanged model depend on them."""
    top = Path(highwater.__file__).parent
    digest = blake2b(digest_size=10)
    for folder in (
        "model/language",
        "checker/engines/native",
        "checker/engines/liveness",
        "checker/engines/solver",
    ):
        for path in sorted((top / folder).glob("*.py")):
            digest.update(path.read_bytes())
    for library in ("llvmlite", "z3-solver"):
        digest.update(version(library).encode())
    return digest.hexdigest()
