"""What names a request: the same name, the same source and the same settings, so tracing finds the same.

Only for protocols that come with the checker: a file of one's own can import anything, and change anything. And only
where a request is explored as it is: a model that is changed, or traced from code that was changed, has no name.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import time
from pathlib import Path

import highwater
from highwater.checker.asking import catalogue
from highwater.checker.asking.request import Request
from highwater.invariants.catalogue import stated
from highwater.model import registry

named = True
"""Whether requests have names; tests, which change code while it runs, have none."""
_BEFORE = time.time() - 10
"""What was changed since may be another text than the one that this process runs."""


def identity_of(request: Request) -> bytes | None:
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
            # What a scenario's file says is in the request.
            kinds = ".py" if os.path.basename(folder) == "scenarios" else (".py", ".toml")
            for name in sorted(name for name in names if name.endswith(kinds)):
                path = f"{folder}/{name}"
                with open(path, "rb", buffering=0) as file:
                    # Not the time of the content, which who writes it can choose.
                    changed = max(changed, os.fstat(file.fileno()).st_ctime)
                    content = file.read()
                digest.update(f"{path.removeprefix(str(package))}\n{len(content)}\n".encode() + content)
    return digest.digest(), changed
