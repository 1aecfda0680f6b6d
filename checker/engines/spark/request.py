"""The input of a search on Spark: options, the model as text, and Highwater's packages for the executors.

A worker traces the model again from the text. A digest of the source files confirms that it is the same model.
"""

from __future__ import annotations

import hashlib
import math
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.catalogue import imported_by
from highwater.checker.scenarios.search import EngineError
from highwater.model import registry
from highwater.model.language import Invariant, Model, StepProperty

LOCAL = "local[*]"
PARTS = ("model", "invariants", "checker", "traces")
ROOT = Path(highwater.__file__).parent
_BOOK = "rulebook.toml"
"""Tracing looks up the numbers of rules in this file."""


@dataclass(frozen=True)
class SparkOptions:
    """Where a search on Spark runs, and where it stores its levels.

    - ``checkpoint``: a directory that driver and executors share. None: a temporary directory, which is removed at the
      end; only for a local master.
    - ``tables``: the levels are the tables of ``highwater states``.
    - ``small``, ``driver_states``: the driver itself expands a level with fewer than ``small`` states, as long as the
      search has found at most ``driver_states`` states.
    - ``buckets``: the number of buckets of fingerprints; None: a number that suits the cores.
    """

    master: str = LOCAL
    checkpoint: str | None = None
    resume: bool = False
    tables: bool = False
    small: int = 200_000
    driver_states: int = 4_000_000
    buckets: int | None = None


@dataclass(frozen=True)
class ModelRequest:
    """A model as data: the settings of a scenario, and its protocol.

    ``protocol`` is a package below ``model``, or the name of a user's own file. ``source`` is the text of that file
    (None for a package), and ``beside`` has the texts of the modules that the file imports.
    """

    protocol: str
    source: str | None
    parameters: Mapping[str, int]
    rules: tuple[str, ...]
    properties: tuple[str, ...]
    symmetry: bool
    deadlock: bool
    tables: bool = False
    beside: Mapping[str, str] = field(default_factory=dict)
    """The texts of the files that the user's own file imports, by module name."""

    @classmethod
    def of(cls, model: Model, symmetry: bool, deadlock: bool, tables: bool = False) -> ModelRequest:
        """The request for a traced model, with the options ``symmetry``, ``deadlock`` and ``tables`` of the search.

        Raises EngineError if the protocol comes neither from a package below ``model`` nor from a user's file.
        """
        kind = type(model.protocol)
        package, source = kind.__module__, None
        name = package.removeprefix("highwater.model.")
        # The package must be in the registry: a worker loads the protocol by that name.
        while name and not (name in registry.NAMES and registry.protocol_of(name) is kind):
            name = name.rpartition(".")[0]
        if not name:
            file = getattr(sys.modules.get(kind.__module__), "__file__", None)
            if file is None:
                raise EngineError(f"the protocol {kind.__name__} comes from no file that a worker could load")
            name, source = Path(file).name, Path(file).read_text(encoding="utf-8")
        return cls(
            name,
            source,
            dict(sorted(model.protocol.parameter_values.items())),
            tuple(sorted(model.protocol.rules_on)),
            tuple(model.safety),
            symmetry,
            deadlock,
            tables,
            {
                name: file.read_text(encoding="utf-8")
                for name, file in sorted(imported_by(kind.__module__).items())
                if source is not None
            },
        )

    def text(self) -> str:
        """The request as JSON. Equal requests have equal texts."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def read(cls, text: str) -> ModelRequest:
        """Parse a request that ``text`` returned."""
        return msgspec.json.decode(text, type=cls)

    def model(self) -> Model:
        """Trace the model. Raises InputError if this machine's Highwater lacks the protocol or a property."""
        if self.source is None:
            definition = catalogue.load(self.protocol)
        else:
            with tempfile.TemporaryDirectory(prefix="highwater-") as directory:
                file = Path(directory) / self.protocol
                file.write_text(self.source, encoding="utf-8")
                for name, text in self.beside.items():
                    file.with_name(f"{name}.py").write_text(text, encoding="utf-8")
                definition = catalogue.load_file(file)
        helpers = (*definition.helpers, *definition.reachable)
        invariants = {p.name: p for p in (*definition.invariants, *helpers) if isinstance(p, Invariant)}
        of_steps = {p.name: p for p in (*definition.step_properties, *helpers) if isinstance(p, StepProperty)}
        missing = [name for name in self.properties if name not in invariants and name not in of_steps]
        if missing:
            raise InputError(f"{self.protocol} has no property {missing[0]} here")
        protocol = definition.protocol(self.parameters, self.rules)
        return Model(
            protocol,
            [invariants[name] for name in self.properties if name in invariants],
            step_properties=[of_steps[name] for name in self.properties if name in of_steps],
        )


def package(directory: Path) -> Path:
    """Write ``highwater.zip`` into a directory, and return the file's path. Python can import from this file."""
    path = directory / "highwater.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(ROOT.glob("*.py")):
            archive.write(file, f"highwater/{file.name}")
        for name in PARTS:
            for file in sorted(f for f in (ROOT / name).rglob("*") if f.suffix == ".py" or f.name == _BOOK):
                archive.write(file, f"highwater/{file.relative_to(ROOT).as_posix()}")
    return path


@cache
def sources() -> str:
    """A digest of the source files that determine the results of a search."""
    digest = hashlib.sha256()
    for name in ("model", "invariants", "checker"):
        for path, file in _files(resources.files(highwater) / name, name):
            digest.update(path.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        below = f"{path}/{entry.name}"
        if below.startswith("checker/") and below.split("/")[1] != "engines":
            continue
        if entry.is_dir():
            yield from _files(entry, below)
        elif entry.name.endswith(".py"):
            yield below, entry


def buckets_for(cores: int) -> int:
    """The number of buckets: a power of two, for fast division.

    On up to 64 cores, it is 4 per core, rounded up, and at least 8. On more cores, it is 256 or, if that is more, the
    number of cores rounded up.
    """
    return 1 << max(3, math.ceil(math.log2(min(4 * cores, max(256, cores)))))
