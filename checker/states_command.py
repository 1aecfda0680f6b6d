"""``highwater states``: the states of a scenario and the steps between them, as tables."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checker import engines, scenarios
from checker.engines import Engine
from checker.options import json_option, model_options, quiet_option, search_engine_options, search_options
from checker.output import JsonOutput
from checker.problems import InputError
from checker.progress import Reporter, size
from checker.report import STOPPED
from checker.request import Overrides, Request
from checker.results import versions
from checker.search import ProgressCallback, SearchOptions
from checker.status import Status
from model.language.model import Model

if TYPE_CHECKING:
    from checker.spark.options import SparkOptions
    from checker.tables.content import Written

ABOUT = "run.json"
Write = Callable[[Model, SearchOptions, Path, ProgressCallback | None], "Written"]


@click.command(short_help="The states and transitions of a scenario as tables.")
@click.argument("name", metavar="SCENARIO")
@click.option(
    "--out", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Where the tables go."
)
@click.option("--force", is_flag=True, help="Replace the tables that DIR holds.")
@model_options(deadlock=False, symmetry=True)
@search_engine_options
@search_options
@json_option
@quiet_option("errors")
def states(
    name: str,
    out: str,
    force: bool,
    overrides: Overrides,
    engine: Engine,
    options: SearchOptions,
    json_file: str | None,
    quiet: bool,
) -> Status:
    """Explore SCENARIO, and write its states and transitions to DIR as Parquet files.

    DIR/states has a row for each reachable state, with a column for each field and each property;
    DIR/transitions has a row for each step. docs/states.md describes the columns and asks them questions.
    A violated property ends nothing here: all states are explored.

    Exit status: 0 everything is in the tables, 2 bad request, 3 a limit was reached first, 130 interrupted;
    with 3 and 130 the tables hold what was found.
    """
    write = _writer(engine, options.workers)
    output = JsonOutput(json_file)
    request = engine.request(scenarios.find(name), overrides)
    directory = _directory(out, force)
    options = replace(options, symmetry=request.symmetry, deadlock=request.deadlock, all_states=True)
    started = time.perf_counter()
    model = request.model()
    try:
        with Reporter(request.scenario.name, quiet=quiet, left="left") as progress:
            written = write(model, options, directory, progress)
        about = _about(request, engine.name, written, time.perf_counter() - started)
        (directory / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as wrong:
        raise InputError(f"--out {out}: {wrong.strerror or wrong}") from None
    if not quiet:
        _say(request, written, time.perf_counter() - started, out, output)
    output.write(about)
    if written.stopped_by is None:
        return Status.AS_PROMISED
    return Status.INTERRUPTED if written.stopped_by == "interrupted" else Status.INCONCLUSIVE


def _writer(engine: Engine, workers: int) -> Write:
    """What explores and writes; InputError where the packages for it are not there."""
    if find_spec("pyarrow") is None:
        raise InputError("states needs the package pyarrow: pip install 'highwater[tables]'")
    if (spark := engine.on_spark(1)) is not None:
        return _on_spark(spark)
    explore = engines.explore(engine.name)
    threads = 1 if engine.name == "interpreter" else workers or len(os.sched_getaffinity(0))

    def write(
        model: Model, options: SearchOptions, directory: Path, progress: ProgressCallback | None
    ) -> Written:
        from checker.tables.writing import write as write_graph

        explored = explore(model, options, progress)
        _empty(directory)
        return write_graph(explored, directory, threads, progress)

    return write


def _on_spark(spark: SparkOptions) -> Write:
    def write(
        model: Model, options: SearchOptions, directory: Path, progress: ProgressCallback | None
    ) -> Written:
        from checker.tables.spark import write as write_on_spark

        _empty(directory)
        return write_on_spark(model, options, spark, directory, progress)

    return write


def _directory(out: str, force: bool) -> Path:
    """The directory of the tables, which can be written to; InputError where it cannot, or holds something."""
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = any(directory.iterdir())
    except OSError as wrong:
        raise InputError(f"--out {out}: {wrong.strerror or wrong}") from None
    if held and not force:
        raise InputError(f"--out {out}: the directory is not empty; --force replaces the tables in it")
    if not os.access(directory, os.W_OK):
        raise InputError(f"--out {out}: cannot be written")
    return directory


def _empty(directory: Path) -> None:
    """Remove the tables of a run before."""
    (directory / ABOUT).unlink(missing_ok=True)
    for table in ("states", "transitions"):
        if (directory / table).is_dir():
            shutil.rmtree(directory / table)


def _about(request: Request, engine: str, written: Written, seconds: float) -> dict[str, Any]:
    return {
        "scenario": request.scenario.name,
        "protocol": request.scenario.definition.name,
        "profile": request.profile,
        "engine": engine,
        "parameters": dict(request.parameters),
        "rules": dict(request.rules),
        "symmetry": request.symmetry,
        "complete": written.stopped_by is None,
        "stopped_by": written.stopped_by,
        "states": written.states,
        "transitions": written.transitions,
        "depth": written.depth,
        "violations": written.violations,
        "bytes": written.bytes,
        "seconds": round(seconds, 6),
        "versions": versions(),
    }


def _say(request: Request, written: Written, seconds: float, out: str, output: JsonOutput) -> None:
    output.say(
        f"{request.scenario.name}: {written.states:,} states, {written.transitions:,} transitions, "
        f"depth {written.depth}; {size(written.bytes)} in {out}, {seconds:.1f} s"
    )
    for name, count in written.violations.items():
        if count:
            output.say(f"  {name} is violated in {count:,} states")
    if written.stopped_by is not None:
        output.say(f"  the tables are not whole: {STOPPED[written.stopped_by]}")
