"""The versions that a JSON result records: schema, Highwater, Python and libraries."""

from __future__ import annotations

import platform
import sys

import highwater

SCHEMAS = {
    "result": 2, "proof": 2, "difference": 1, "tables": 2, "gate": 2, "mutation": 2, "report": 2,
    "internal-error": 1, "conform": 1, "incidents": 1, "plan": 1,
}  # fmt: skip
"""The schema version of each kind of JSON result. It rises if programs that read the result must be changed."""

_LIBRARIES = ("llvmlite", "numpy", "pyspark", "scipy")


def versions(form: str) -> dict[str, str]:
    """The versions to record in a JSON result, by name: schema, Highwater, Python and loaded libraries.

    ``form`` is the kind of result, a key of ``SCHEMAS``.
    """
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
