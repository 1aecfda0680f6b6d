"""Keys of models. If two models have equal keys, results of one are valid for the other.

- ``request_key`` identifies a request with a built-in protocol: equal sources and settings trace equal models.
- ``model_key`` identifies a traced model: everything that a search can report, and the order of the search.
- ``engine_key`` identifies the code that explores and proves.
- ``Fingerprints`` identify behaviour. Names have no effect on a fingerprint, nor have the order or grouping of
  operands, De Morgan's laws, or writing ``a < 3`` as ``a <= 2``. The position of a scalar in the state has an effect.
  Equal fingerprints mean equal behaviour; different fingerprints mean nothing.
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
from highwater.model.language import Model
from highwater.model.language.graph import GROUPED, INT, Node
from highwater.model.language.liveness import TracedLiveness
from highwater.model.language.model import Instance, Property
from highwater.model.language.step_properties import TracedStepProperty

named = True
"""False if requests have no keys, as in tests that change code while it runs."""
_BEFORE = time.time() - 2
"""Two seconds before this process began. A file that changed later may differ from the code that this process runs."""


def request_key(request: Request) -> bytes | None:
    """A digest of all that tracing a request depends on.

    None in these cases:

    - Keys are turned off (``named`` is False).
    - Tracing depends on a user's file.
    - Sources may have changed since this process began.
    """
    if not comes_with_the_checker(request):
        return None
    definition = request.scenario.definition
    source = _source()
    if source is None:
        return None
    properties = (request.invariants, request.step_properties, request.liveness, request.goals)
    content = (
        definition.name,
        definition.procedure,
        sorted(request.parameters.items()),
        sorted(request.rules.items()),
        [[p.name for p in kind] for kind in properties],
        (request.symmetry, request.deadlock),
    )
    return hashlib.sha256(source + repr(content).encode()).digest()


def key_of(*parts: object) -> bytes | None:
    """A digest of all sources and of these parts, for a model that they determine. None as for ``request_key``."""
    source = _source() if named and not any(m.startswith(catalogue.OWN_FILE) for m in sys.modules) else None
    return None if source is None else hashlib.sha256(source + repr(parts).encode()).digest()


def comes_with_the_checker(request: Request) -> bool:
    """True if protocol and properties are built in, and this process has executed no user's file."""
    definition = request.scenario.definition
    if not named or definition.name not in registry.NAMES:
        return False
    if any(m.startswith(catalogue.OWN_FILE) for m in sys.modules):
        return False
    all_ = stated(definition.name)
    kinds = (all_.invariants, all_.step_properties, all_.liveness, all_.helpers, all_.helper_steps)
    known = {id(p) for kind in (*kinds, all_.reachable) for p in kind}
    protocol = definition.protocol
    if definition.procedure:  # the key contains the name of the procedure, which is in the sources
        protocol = protocol.__mro__[1]
        known.add(id(definition.liveness[-1]))
    properties = (*request.invariants, *request.step_properties, *request.liveness, *request.goals)
    return protocol is registry.protocol_of(definition.name) and all(id(p) in known for p in properties)


def _source() -> bytes | None:
    """A digest of all sources; None if they are missing or changed since this process began."""
    try:
        sources = _sources()
    except OSError:
        return None
    return sources.digest() if 0 < sources.changed < _BEFORE else None


def sources_unchanged() -> bool:
    """True if no source has changed since this process began, and ``request_key`` read the present files."""
    try:
        package = Path(highwater.__file__).parent
        changed = {name: os.stat(package / name).st_ctime for name in source_files(package)}
        return changed.keys() == _sources().digests.keys() and max(changed.values(), default=0.0) < _BEFORE
    except OSError:
        return False


@functools.cache
def _sources() -> Sources:
    return Sources(Path(highwater.__file__).parent)


ENGINES = ("checker/base/", "checker/engines/", "checker/runner.py", "checker/scenarios/", "model/language/")
"""The beginnings of the paths of the code that explores and proves."""


class Sources:
    """The source files of a package: the digest of each by its path, and the time of the last change."""

    def __init__(self, package: Path) -> None:
        """Read all source files. Raises OSError."""
        self.digests: dict[str, bytes] = {}
        self.changed = 0.0
        for name in source_files(package):
            with open(package / name, "rb", buffering=0) as file:
                # Not st_mtime, which a writer can set to any time.
                self.changed = max(self.changed, os.fstat(file.fileno()).st_ctime)
                self.digests[name] = hashlib.sha256(file.read()).digest()
        self.digest = functools.cache(self._digest)
        """A digest of Python, its libraries, and the sources whose paths begin with ``places`` (default: all)."""

    def _digest(self, *places: str) -> bytes:
        digest = hashlib.sha256(repr((sys.version, sys.flags.optimize, _versions())).encode())
        for name, own in self.digests.items():
            if not places or name.startswith(places):
                digest.update(f"{name}\n".encode() + own)
        return digest.digest()


def source_files(package: Path) -> list[str]:
    """The paths of a package's code and tables, sorted. Scenarios are left out: a request has its scenario's content.

    Links to folders are followed, because a checkout has links to its four folders of code.
    """
    found = []
    for place, inner, names in os.walk(package, followlinks=True):
        inner[:] = [name for name in inner if name != "__pycache__"]
        kinds = ".py" if os.path.basename(place) == "scenarios" else (".py", ".toml")
        found += [
            os.path.relpath(os.path.join(place, name), package) for name in names if name.endswith(kinds)
        ]
    return sorted(found)


def _versions() -> list[str]:
    """The versions of the libraries that trace, compile, explore and prove."""
    return [version(library) for library in ("llvmlite", "msgspec", "numpy", "scipy", "z3-solver")]


class Fingerprints:
    """Computes and caches fingerprints of expressions, actions, properties and models."""

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
        """The fingerprint of an action with its parameters fixed: its guards, writes and checks."""
        writes = [f"{leaf}={self.node(w.node)}" for leaf, w in sorted(instance.writes.items())]
        checks = sorted(f"{self.node(c.node)}:{c.bound is not None}" for c in instance.checks)
        return _digest("instance", self.node(instance.enabled), *writes, "checks", *checks)

    def action(self, instances: Iterable[Instance]) -> str:
        """The fingerprint of an action, from the fingerprints of its instances."""
        return _digest("action", *sorted(self.instance(i) for i in instances))

    def property(self, found: Property) -> str:
        """The fingerprint of an invariant: its condition and its premise."""
        return _digest("property", self.node(found.node), self.node(found.premise))

    def step_property(self, found: TracedStepProperty) -> str:
        """The fingerprint of a step property: its condition and its premise."""
        return _digest("step property", self.node(found.node), self.node(found.premise))

    def liveness(self, model: Model, found: TracedLiveness) -> str:
        """The fingerprint of a liveness property: its premises, goals and fair groups."""
        groups = sorted(
            _digest(
                str(g.strong),
                *sorted(self.instance(model.instances[i]) for i in g.instances),
                *(["when", self.node(g.when)] if g.when is not None else []),
            )
            for g in found.groups
        )
        cases = [[self.node(c.premise), *map(self.node, c.goals)] for c in found.cases]
        parts = cases[0] if len(cases) == 1 else sorted(_digest("case", *case) for case in cases)
        return _digest("liveness", str(found.liveness.kind), *parts, *groups)

    def model(self, model: Model, *options: object) -> str:
        """The fingerprint of a whole model: its scalars, initial states, actions and properties, and ``options``."""
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
        if node.op in GROUPED:
            return _digest(node.op, *self._operands(node))
        keys = [self._key[a.id] for a in node.args]
        if node.op == "eq":
            keys.sort()
        if node.op == "lt" and node.args[0].is_const:  # 2 < a is not (a < 3)
            after = _digest("const", INT, str(node.args[0].value + 1))
            return _negated(_digest("lt", keys[1], after))
        return _digest(node.op, *keys)

    def _conjuncts(self, node: Node, positive: bool) -> tuple[str, ...]:
        """The sorted fingerprints of a node's conjuncts; if not ``positive``, of the conjuncts of its negation."""
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
        """The sorted fingerprints of the operands of a chain of one operation.

        Equal operands are included once, but in a sum or a product as often as they occur.
        """
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
"""The fingerprints that this process has computed; models share most of their expressions as objects."""


def _negated(key: str) -> str:
    return key[1:] if key.startswith("!") else "!" + key


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


def by_action(model: Model) -> dict[str, list[Instance]]:
    """The instances of each action that has instances."""
    found: dict[str, list[Instance]] = {}
    for instance in model.instances:
        found.setdefault(instance.action.name, []).append(instance)
    return found


def model_key(model: Model, *options: object) -> str:
    """A traced model's key: its fingerprint, and its instances and properties with names, in their order.

    The order matters, because results and checkpoints refer to instances and properties by position.
    """
    ordered: list[object] = [[(str(i), KEPT.instance(i)) for i in model.instances]]
    ordered.append([(p.name, KEPT.property(p)) for p in model.properties])
    ordered.append([(p.name, KEPT.step_property(p), sorted(p.asked)) for p in model.step_properties])
    for live in model.liveness:
        cases = [
            (repr(c.parameters), KEPT.node(c.premise), list(map(KEPT.node, c.goals))) for c in live.cases
        ]
        ordered.append((live.name, KEPT.liveness(model, live), cases))
    return json.dumps([KEPT.model(model, *options), ordered])


def engine_key(*places: str) -> str:
    """A digest of the engines, the language and their libraries, on which results of an unchanged model depend.

    ``places`` are the beginnings of the paths of further code that the digest includes.
    """
    return _sources().digest(*ENGINES, *places).hex()[:20]
