"""Write a CycloneDX bill of materials of every package that `.constraints.txt` pins.

    python -m tests.packaging.bom --out dist/highwater.cdx.json

A package is `required` to run, `optional` for a user extra, or `excluded`: only for build, tests or lint.
Dependencies and licences come from the installed packages, so all must be installed.
"""

from __future__ import annotations

import argparse
import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import highwater
from tests.packaging.release import ROOT, source_date

NAME = "highwater-checker"
CONSTRAINTS = ROOT / ".constraints.txt"
USERS_EXTRAS = ("spark", "tables", "follow")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!_-]+)")
# Licences read in a package's files, where its metadata names none.
_READ_IN_FILES = {"cvc5": "BSD-3-Clause"}
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def pins(text: str) -> dict[str, tuple[str, str]]:
    """Canonical name → (name, version) of each pinned package. Raises ValueError for an invalid pin."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            pin = _PIN.fullmatch(line.strip())
            if pin is None:
                raise ValueError(f"not a pin: {line}")
            found[str(canonicalize_name(pin[1]))] = (pin[1], pin[2])
    return found


def needed_by(name: str, extras: Iterable[str] = ("",)) -> list[str]:
    """Canonical names of an installed package's dependencies with these extras; empty if not installed."""
    known = _installed(name)
    requirements = [Requirement(text) for text in (known.requires or ())] if known else []
    return sorted(
        {
            canonicalize_name(r.name)
            for r in requirements
            if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in extras)
        }
    )


def closure(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needed_by(name)
    return found


def missing(text: str) -> list[str]:
    return [name for key, (name, _) in sorted(pins(text).items()) if _installed(key) is None]


def bill(text: str, date: int) -> dict[str, Any]:
    """The bill of these constraints at a time. Raises LookupError if a package is not installed."""
    if absent := missing(text):
        raise LookupError(f"not installed: {', '.join(absent)}; `make setup` installs all that is pinned")
    pinned = pins(text)
    required = closure(needed_by(NAME))
    optional = closure(needed_by(NAME, ("", *USERS_EXTRAS)))
    components = [_component(key, pinned[key], required, optional) for key in sorted(pinned)]
    own = f"pkg:pypi/{NAME}@{highwater.__version__}"
    edges = {
        own: [_address(key, pinned[key][1]) for key in needed_by(NAME, ("", *USERS_EXTRAS)) if key in pinned]
    }
    for key in sorted(pinned):
        edges[_address(key, pinned[key][1])] = [
            _address(k, pinned[k][1]) for k in needed_by(key) if k in pinned
        ]
    content = json.dumps([components, edges], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, content)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(date, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": NAME,
                "version": highwater.__version__,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(on)} for ref, on in edges.items()],
    }


def _component(key: str, pin: tuple[str, str], required: set[str], optional: set[str]) -> dict[str, Any]:
    name, version = pin
    address = _address(key, version)
    said = _licence(key)
    return {
        "type": "library",
        "bom-ref": address,
        "name": name,
        "version": version,
        "purl": address,
        "scope": "required" if key in required else "optional" if key in optional else "excluded",
        **({"licenses": said} if said else {}),
    }


def _licence(key: str) -> list[dict[str, Any]]:
    """CycloneDX licences: an SPDX expression if the package has one, else its licence name."""
    known = _installed(key)
    if known is None:
        return []
    if "License-Expression" in known.metadata:
        return [{"expression": known.metadata["License-Expression"]}]
    named = [
        c.rpartition(" :: ")[2]
        for c in known.metadata.get_all("Classifier", [])
        if c.startswith("License ::")
    ]
    told = [known.metadata["License"]] if "License" in known.metadata else []
    named = named or [text for text in told if text and "\n" not in text]
    if not named and key in _READ_IN_FILES:
        return [{"license": {"id": _READ_IN_FILES[key]}}]
    return [{"license": {"name": name}} for name in named]


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _address(key: str, version: str) -> str:
    return f"pkg:pypi/{key}@{version}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "highwater.cdx.json")
    given = parser.parse_args()
    try:
        found = bill(CONSTRAINTS.read_text(), source_date())
    except LookupError as wrong:
        parser.error(str(wrong))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{given.out}: {len(found['components'])} packages")


if __name__ == "__main__":
    main()
