"""Which test files are near to a module: those that name it, then those of the part that it belongs to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

AREAS = {
    "checker/api": ("checker", "plugin"),
    "checker/testing/conformance": ("conformance",),
    "checker/comparing/coverage": ("gate",),
    "checker/explore": ("explore", "pages"),
    "checker/report/falsity.py": ("falsity", "pages"),
    "checker/comparing/gate": ("gate",),
    "checker/engines/liveness": ("liveness",),
    "checker/comparing/mutation": ("mutation",),
    "checker/engines/native": ("native", "steps", "liveness", "states/test_explored.py"),
    "checker/report/page": ("pages", "explore"),
    "checker/testing/plugin": ("plugin",),
    "checker/scenarios/rulebook": ("rulebook",),
    "checker/engines/solver": ("solver",),
    "checker/engines/spark": ("spark",),
    "checker/tables": ("states",),
    "checker/testing": ("machine", "conformance"),
    "checker/commands": ("checker", "pages", "gate", "traces/test_replay_command.py"),
    "checker/commands/diff": ("solver/test_difference.py", "checker"),
    "checker/commands/explore": ("explore", "checker"),
    "checker/commands/gate": ("gate/test_gate_command.py", "checker"),
    "checker/commands/mutate": ("mutation/test_mutate_command.py", "checker"),
    "checker/commands/prove": ("solver/test_prove_command.py", "checker"),
    "checker/commands/states": ("states", "checker"),
    "checker/base/files": ("durable", "native/test_checkpoint.py", "spark/test_manifests.py"),
    "checker/report": ("checker", "pages", "falsity"),
    "checker": ("checker", "steps", "native", "liveness"),
    "model/language": ("language", "steps", "model", "native", "liveness", "solver"),
    "traces/brokers": ("traces/watermarks", "traces"),
    "traces/kafka": ("traces/kafka", "traces"),
    "traces/metadata": ("traces/metadata", "traces"),
    "traces/operations": ("traces",),
    "traces/messages": ("traces/raft", "traces/requests", "traces"),
    "traces/rules": ("traces/metadata", "traces"),
    "traces/runs": ("traces/runs", "explore"),
    "traces/metadata/shares": ("traces/shares", "spark"),
    "traces": ("traces",),
}
"""Part of the source to folders of tests; the longest name that fits is the one."""


@cache
def _texts(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "tests").rglob("test_*.py"))
    }


def naming(root: Path, file: str) -> list[str]:
    """Test files that name a module, the nearest first: called like it, of its part, and with few other modules."""
    package, _, stem = file.removesuffix(".py").replace("/", ".").rpartition(".")
    if stem == "__init__":
        package, _, stem = package.rpartition(".")
    whole = rf"highwater\.{re.escape(package)}\.{stem}\b"
    of_package = rf"from highwater\.{re.escape(package)} import (\([^)]*|.*)\b{stem}\b"
    pattern = re.compile(f"{whole}|{of_package}")
    stems = set(file.removesuffix(".py").split("/")[1:])
    folders = tuple(f"{folder}/" for folder in beside(root, file))

    def distance(name: str) -> tuple[bool, bool, int]:
        called = Path(name).stem.removeprefix("test_")
        return called not in stems, not name.startswith(folders), _texts(root)[name].count("highwater.")

    return sorted((name for name, text in _texts(root).items() if pattern.search(text)), key=distance)


def beside(root: Path, file: str) -> list[str]:
    """The folders of tests of the part that a module belongs to."""
    part = max(
        (name for name in AREAS if file.startswith(f"{name}/") or file.startswith(f"{name}.")), key=len
    )
    return [f"tests/{folder}" for folder in AREAS[part] if (root / "tests" / folder).exists()]
