"""A model as a short text: what a worker needs to trace it again and to know that it is the same one."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from highwater.checker.asking import catalogue
from highwater.checker.asking.neighbours import imported_by
from highwater.checker.asking.search import EngineError
from highwater.checker.base.problems import InputError
from highwater.model import registry
from highwater.model.language.model import Model
from highwater.model.language.protocol import Invariant
from highwater.model.language.step_properties import StepProperty


@dataclass(frozen=True)
class ModelRequest:
    """A protocol by its package, or as the text of a user's own file, and what a scenario sets of it."""

    protocol: str
    source: str | None
    parameters: Mapping[str, int]
    rules: tuple[str, ...]
    properties: tuple[str, ...]
    symmetry: bool
    deadlock: bool
    beside: Mapping[str, str] = field(default_factory=dict)
    """Texts of the files that the user's own file imports, by their modules' names."""

    @classmethod
    def of(cls, model: Model, symmetry: bool, deadlock: bool) -> ModelRequest:
        """The request for a model whose protocol comes from a package below ``model`` or from a file."""
        kind = type(model.protocol)
        package, source = kind.__module__, None
        name = package.removeprefix("highwater.model.")
        # Its package is asked by its name in the registry: a worker has nothing else to load it by.
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
            {key: getattr(model.protocol.p, key) for key in sorted(model.protocol.parameters)},
            tuple(sorted(model.protocol.rules_on)),
            tuple(model.safety),
            symmetry,
            deadlock,
            {
                name: file.read_text(encoding="utf-8")
                for name, file in sorted(imported_by(kind.__module__).items())
                if source is not None
            },
        )

    def as_json(self) -> dict[str, Any]:
        """The request as JSON's types."""
        return {**asdict(self), "rules": list(self.rules), "properties": list(self.properties)}

    def text(self) -> str:
        """The request as a text, the same for equal requests."""
        return json.dumps(self.as_json(), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> ModelRequest:
        """From a text."""
        plain = json.loads(text)
        return cls(**{**plain, "rules": tuple(plain["rules"]), "properties": tuple(plain["properties"])})

    def model(self) -> Model:
        """Trace the protocol. Raises InputError where it is not installed here."""
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
