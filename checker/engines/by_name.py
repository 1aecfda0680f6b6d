"""The engines by name. Each engine is imported on its first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import ProgressCallback, SearchOptions, SearchResult
from highwater.model.language import Model

if TYPE_CHECKING:
    from highwater.checker.engines.spark.request import SparkOptions
    from highwater.checker.engines.state_graph import Explored

NAMES = ("native", "interpreter", "spark")
DEFAULT = "native"

_MODULES = {
    ("native", "search"): "native",
    ("native", "explore"): "native.state_graph",
    ("interpreter", "search"): "reference",
    ("interpreter", "explore"): "reference",
    ("spark", "search"): "spark",
}

Search = Callable[[Model, SearchOptions, ProgressCallback | None], SearchResult]
Explore = Callable[[Model, SearchOptions, ProgressCallback | None], "Explored"]


@dataclass(frozen=True)
class Engine:
    """The engine of an exhaustive search: its name, the URL of Spark's master, and the checkpoint's directory."""

    name: str
    spark_master: str | None = None
    checkpoint: str | None = None
    resume: bool = False

    def on_spark(self, scenarios: int) -> SparkOptions | None:
        """Spark's options for a command with ``scenarios`` scenarios; None if the engine is not Spark.

        Raises InputError if Spark is not installed, if ``spark_master`` is set for another engine, or if the
        options of the checkpoint are wrong: several scenarios with one checkpoint, or ``resume`` without a
        checkpoint.
        """
        if self.name == "spark":
            return spark_options(self.spark_master, self.checkpoint, self.resume, scenarios)
        if self.spark_master:
            raise InputError("--spark-master: this is an option of --engine spark")
        return None

    def search(self, scenarios: int) -> Search:
        """The search function for a command with ``scenarios`` scenarios. Raises InputError for unsupported options."""
        spark = self.on_spark(scenarios)
        if spark is not None:
            return functools.partial(_load("spark", "search"), spark=spark)
        _refuse_checkpoint(self.checkpoint, self.resume, scenarios)
        if self.checkpoint and self.name != "native":
            raise InputError(f"--checkpoint: the {self.name} engine keeps none; use --engine native")
        return self._search

    def _search(
        self, model: Model, options: SearchOptions, progress: ProgressCallback | None = None
    ) -> SearchResult:
        """Search with this engine, which is imported only now, because a cached result needs no engine."""
        kept = replace(options, checkpoint=self.checkpoint, resume=self.resume)
        return search(self.name)(model, kept, progress)

    def request(self, scenario: Scenario, overrides: Overrides) -> Request:
        """The request for a scenario with overrides, adapted to this engine. Raises InputError like ``fitted``."""
        return self.fitted(Request.of(scenario, overrides), overrides.symmetry)

    def fitted(self, request: Request, symmetry: bool | None = None) -> Request:
        """The request, without symmetry reduction if the engine is the interpreter.

        ``symmetry`` is the user's setting, or None. Raises InputError for an unsupported option.
        """
        if self.name != "interpreter":
            return request
        if symmetry:
            raise InputError("--symmetry: the interpreter engine does not reduce by symmetry")
        return request.without_symmetry()


def search(name: str) -> Search:
    """The exhaustive search function of an engine. Raises InputError if the engine has none."""
    function: Search = _load(name, "search")
    return function


def explore(name: str) -> Explore:
    """The engine's function that builds an explored graph. Raises InputError if the engine has none."""
    function: Explore = _load(name, "explore")
    return function


def spark_options(master: str | None, checkpoint: str | None, resume: bool, scenarios: int) -> SparkOptions:
    """The options of the Spark engine. ``master`` None means all cores of this machine.

    Raises InputError if Spark is not installed, if there is a checkpoint and ``scenarios`` is not 1, or if ``resume``
    lacks a checkpoint.
    """
    _refuse_checkpoint(checkpoint, resume, scenarios)
    try:
        _load("spark", "search")
        options = importlib.import_module("highwater.checker.engines.spark.request")
    except ModuleNotFoundError as missing:
        raise InputError(
            f"--engine spark needs the package {missing.name}: pip install 'highwater-checker[spark]'"
        ) from None
    chosen: SparkOptions = options.SparkOptions(master or options.LOCAL, checkpoint, resume)
    return chosen


def _refuse_checkpoint(checkpoint: str | None, resume: bool, scenarios: int) -> None:
    if checkpoint is not None and scenarios != 1:
        raise InputError("--checkpoint: name one scenario; a checkpoint is of one search")
    if resume and checkpoint is None:
        raise InputError("--resume: name the --checkpoint to go on from")


def _load(name: str, word: str) -> Any:
    module = _MODULES.get((name, word))
    if module is None:
        raise InputError(f"--engine {name}: {word} is not available with this engine yet")
    return getattr(importlib.import_module(f"highwater.checker.engines.{module}"), word)
