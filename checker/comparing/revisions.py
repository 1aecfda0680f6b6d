"""Other revisions: their files from git, and their models, traced by their own source and rebuilt from images."""

from __future__ import annotations

import io
import json
import pkgutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from highwater.checker.base.problems import InputError
from highwater.model.language import Action, Invariant, Liveness, Model, StepProperty, Struct, graph, types
from highwater.model.language.graph import Node, made_of
from highwater.model.language.liveness import Case, FairGroup, Kind, TracedLiveness
from highwater.model.language.model import Instance, Property, state_inputs
from highwater.model.language.step_properties import TracedStepProperty
from highwater.model.language.tracing import Check, Guard, Write
from highwater.model.language.types import Type

OWN = ("highwater", "model", "invariants", "checker", "traces")
"""The folders that a revision of this repository needs to trace its own models. Older revisions lack `highwater`."""


ImageRequest = Mapping[str, Any]
"""A scenario to trace: ``scenario``, its name; ``parameters`` and ``rules`` that override its own; ``proof``, True to
add the helpers of a proof."""


@dataclass(frozen=True)
class Revision:
    """A revision whose files are in ``directory``. ``prefix`` is the path of the baseline's root in ``directory``."""

    name: str
    commit: str
    directory: Path
    prefix: Path

    @property
    def root(self) -> Path:
        """The directory in the revision that corresponds to the baseline's root."""
        return self.directory / self.prefix

    def images(self, requests: Sequence[ImageRequest]) -> list[Image]:
        """For each request, the image of its model in this revision, or ``{"error": …}``."""
        source = pkgutil.get_data(__package__, "image.py")
        assert source is not None
        done = subprocess.run(
            [sys.executable, "-I", "-c", source.decode(), str(self.directory)],
            input="".join(f"{json.dumps(one)}\n" for one in requests),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
        )
        lines = done.stdout.splitlines()
        if done.returncode or len(lines) != len(requests):
            reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            raise InputError(f"{self.name}: its models cannot be traced: {reason}")
        return [json.loads(line) for line in lines]


def last_change(path: Path) -> str | None:
    """The commit that last changed a file; None without git, or if git does not know the file."""
    found = _git(path.absolute().parent, "log", "-1", "--format=%H", "--", path.name)
    return found or None


@contextmanager
def checked_out(name: str, root: Path) -> Iterator[Revision]:
    """Yield a revision of the working tree's repository; while inside, its files are in a temporary directory.

    ``root`` is a directory of the working tree. Raises InputError if git has no such revision, or ``root`` is in no
    repository.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise InputError(f"{root}: not in a git repository, so there is no other revision")
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not commit:
        raise InputError(f"{name}: git knows no such revision")
    prefix = root.resolve().relative_to(Path(top).resolve())
    wanted = [
        folder
        for folder in OWN
        if _git(Path(top), "cat-file", "-e", f"{commit}:{folder}/__init__.py") is not None
    ]
    paths = wanted if "model" in wanted else [str(prefix)] if prefix.parts else []
    command = ["git", "-C", top, "archive", "--format=tar", commit, *paths]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise InputError(f"{name}: git archive: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory(prefix="highwater-gate-") as directory:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            unpack(archive, directory)
        (Path(directory) / prefix).mkdir(parents=True, exist_ok=True)
        yield Revision(name, commit, Path(directory), prefix)


def _git(directory: Path, *arguments: str) -> str | None:
    """The output of a git command, without the last newline; None if it fails or git is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def unpack(archive: tarfile.TarFile, directory: str | Path) -> None:
    """Unpack an archive. From Python 3.11.4 on, members outside the directory are refused."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(directory, filter="data")
    else:
        archive.extractall(directory)


Stated = TypeVar("Stated", Invariant, StepProperty)
Image = Mapping[str, Any]
"""A traced model and its request as plain data, as ``image.py`` writes them."""


class UnknownImageError(ValueError):
    """An image has unknown content: its revision is too different from the present one."""


class RestoredModel(Model):
    """A model rebuilt from its image."""

    def __init__(self, image: Image, state: Struct | None = None, order: Sequence[int] | None = None):
        """Rebuild the model from its image.

        With ``state``, states have the layout of this type, and ``order`` has the new index of each scalar of the
        image. Without ``state``, they keep the image's own layout.
        """
        own = _type(image["state"])
        assert isinstance(own, Struct)
        self.own_leaves = own.leaves("")
        self.protocol: Any = SimpleNamespace(name=image["protocol"], state=state or own)
        self.leaves = self.protocol.state.leaves("")
        self.inputs = state_inputs(self.leaves)
        order = range(len(self.own_leaves)) if order is None else order
        inputs = [scalars[i] for scalars in (self.inputs, self.after) for i in order]
        nodes = _nodes(image["nodes"], inputs)
        self.actions = [
            Action(name, _documented(a["meaning"]), a["domains"], a["source"], None, a["says"])
            for name, a in image["actions"].items()
        ]
        actions = {a.name: a for a in self.actions}
        self.instances = [
            Instance(
                actions[i["action"]],
                i["parameters"],
                tuple(Guard(name, nodes[n], place) for name, n, place in i["guards"]),
                {order[leaf]: Write(nodes[n], place) for leaf, n, place in i["writes"]},
                tuple(Check(order[leaf], nodes[n], *rest) for leaf, n, *rest in i["checks"]),
            )
            for i in image["instances"]
        ]
        self.properties = [
            Property(_stated(Invariant, p), nodes[p["node"]], nodes[p["premise"]])
            for p in image["properties"]
        ]
        self.step_properties = [
            TracedStepProperty(
                _stated(StepProperty, p), nodes[p["node"]], nodes[p["premise"]], frozenset(p["asked"])
            )
            for p in image["step_properties"]
        ]
        self.liveness = [
            TracedLiveness(
                Liveness(p["name"], _documented(p["meaning"]), Kind(p["kind"]), p["source"]),
                tuple(
                    Case(nodes[premise], tuple(nodes[goal] for goal in goals), parameters)
                    for premise, goals, parameters in p["cases"]
                ),
                tuple(
                    FairGroup(label, strong, frozenset(own), None if when is None else nodes[when])
                    for label, strong, own, when in p["groups"]
                ),
            )
            for p in image["liveness"]
        ]
        self.bounds = sorted({c.bound for i in self.instances for c in i.checks if c.bound})
        initial = (dict(zip(order, plain, strict=True)) for plain in image["initial"])
        self.__dict__["start"] = None
        self.__dict__["initial"] = [tuple(state[i] for i in range(len(order))) for state in initial]


def _stated(kind: type[Stated], image: Mapping[str, Any]) -> Stated:
    return kind(image["name"], _documented(image["meaning"]), image["source"], goal=image["goal"])


def _documented(text: str) -> Callable[..., None]:
    """A placeholder for a function whose code is in another revision; ``text`` is its docstring."""

    def function(*arguments: object) -> None:
        raise NotImplementedError("the source of this function is in another revision")

    function.__doc__ = text
    return function


def _nodes(images: Sequence[Sequence[Any]], inputs: Sequence[Node]) -> list[Node]:
    nodes: list[Node] = []
    for op, args, value, sort, _, high in images:
        operands = [nodes[i] for i in args]
        if op == "const":
            nodes.append(graph.const(value, sort))
        elif op == "input":
            nodes.append(inputs[value])
        else:
            try:
                nodes.append(made_of(op, operands, int(high).bit_length()))
            except KeyError:
                raise UnknownImageError(f"the operation {op} is not known") from None
    return nodes


def _type(image: Sequence[Any]) -> Type:
    kind, *rest = image
    match kind:
        case "BoolType":
            return types.Bool
        case "IntType":
            return types.Int(*rest)
        case "Index":
            return types.Index(*rest)
        case "Enum":
            return types.Enum(*rest)
        case "Set":
            return types.Set(_index(rest[0]))
        case "Option":
            return types.Option(_type(rest[0]))
        case "Array":
            return types.Array(_index(rest[0]), _type(rest[1]))
        case "Seq":
            return types.Seq(_type(rest[0]), *rest[1:])
        case "Struct":
            return Struct(rest[0], **{name: _type(inner) for name, inner in rest[1]})
    raise UnknownImageError(f"the type {kind} is not known")


def _index(image: Sequence[Any]) -> types.Index | types.Enum:
    found = _type(image)
    assert isinstance(found, (types.Index, types.Enum))
    return found
