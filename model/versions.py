"""The versions of the programs that made a result, and of the form in which it is written."""

from __future__ import annotations

import platform
import sys

import highwater

SCHEMAS = {
    "result": 2, "proof": 2, "difference": 1, "tables": 1, "gate": 1, "coverage": 1, "mutation": 2, "report": 2,
    "internal-error": 1, "conform": 1,
}  # fmt: skip
"""The forms of results as JSON, each with its version: another one where a program that reads it has to be changed."""

_LIBRARIES = ("llvmlite", "numpy", "pyspark", "scipy")


def versions(form: str) -> dict[str, str]:
    """The versions that a result of this form records: of the form, this checker, Python, and loaded libraries."""
    found = {
        "schema": f"highwater-{form}-{SCHEMAS[form]}",
        "highwater": highwater.__version__,
        "python": platform.python_version(),
    }
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "unknown"))
    if (z3 := sys.modules.get("z3")) is not None:
        found["z3"] = z3.get_version_string()
    return found
