"""``highwater states``: write the states of a scenario and the steps between them as Parquet tables."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import folded
from highwater.checker.commands.options import (
    json_option,
    model_options,
    quiet_option,
    search_engine_options,
    search_options,
)
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.by_name import Engine
from highwater.checker.report.results import STOPPED
from highwater.checker.runner import ProgressReporter, size
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.versions import versions

if TYPE_CHECKING:
    from highwater.checker.engines.spark.request import SparkOptions
    from highwater.checker.tables import TableDirectory, WrittenTables


@click.command(short_help="Write a scenario's states and transitions as Parquet tables.")
@click.argument("name", metavar="SCENARIO")
@click.option(
    "--out", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Directory of the tables."
)
@click.option("--force", is_flag=True, help="Replace tables in DIR.")
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
    DIR/transitions has a row for each step. docs/results.md describes the columns and has queries.
    All states are explored, also after a violation. With --engine spark, the levels of the search are the tables, and
    --resume continues the search in DIR.

    Exit status: 0 the tables are complete, 2 bad request, 3 stopped at a limit, 130 interrupted. After a limit, or
    Ctrl-C during the search, the tables hold the states found so far. Ctrl-C while tables are written leaves none.
    """
    if find_spec("pyarrow") is None:
        raise InputError("states needs the package pyarrow: pip install 'highwater-checker[tables]'")
    from highwater.checker.tables import TableDirectory, WrittenTables

    spark = _spark_options(engine, out)
    output = JsonOutput(json_file, quiet=quiet)
    request = engine.request(scenario_files.find(name), overrides).without_goals()
    tables = TableDirectory(out, force=force, resume=engine.resume)
    options = replace(options, symmetry=request.symmetry, deadlock=request.deadlock, all_states=True)
    started = time.perf_counter()

    def about(written: WrittenTables) -> dict[str, Any]:
        return _about(request, engine.name, written, time.perf_counter() - started)

    try:
        model = request.model()
        with ProgressReporter(request.scenario.name, quiet=quiet, left="left") as progress:
            written = _written(engine, spark, model, options, tables, progress)
            result = about(written)
            tables.finish(result)
    except KeyboardInterrupt:
        click.echo("highwater: interrupted before the tables were complete", err=True)
        output.write(about(WrittenTables(stopped_by="interrupted")))
        return Status.INTERRUPTED
    except BrokenPipeError:  # the reader of the progress output has closed the pipe
        raise
    except OSError as wrong:
        raise tables.unusable(wrong) from None
    for line in folded(_lines(request, written, time.perf_counter() - started, out)):
        output.note(line)
    output.write(result)
    if written.stopped_by is None:
        return Status.OK
    return Status.INTERRUPTED if written.stopped_by == "interrupted" else Status.INCONCLUSIVE


def _spark_options(engine: Engine, out: str) -> SparkOptions | None:
    """Spark's options for tables in ``out``; None for another engine. Raises InputError for unsupported options."""
    if engine.checkpoint is not None:
        raise InputError("--checkpoint: not with states; on Spark, the tables in --out are the checkpoint")
    if engine.resume and engine.name != "spark":
        raise InputError("--resume: here this is an option of --engine spark")
    spark = replace(engine, checkpoint=out).on_spark(1)
    return None if spark is None else replace(spark, tables=True)


def _written(
    engine: Engine,
    spark: SparkOptions | None,
    model: Model,
    options: SearchOptions,
    tables: TableDirectory,
    progress: ProgressReporter,
) -> WrittenTables:
    """Explore with an engine, and write the tables."""
    from highwater.checker.tables import count_tables, write

    if spark is not None:
        from highwater.checker.engines.spark import search as search_on_spark

        if not spark.resume:
            tables.clear()
        found = search_on_spark(model, options, progress, spark)
        return count_tables(tables.path, model, found.depth, found.stopped_by)
    explored = engines.explore(engine.name)(model, options, progress)
    if explored.stopped_by == "interrupted":
        states = f"the {len(explored.states):,} states found so far are being written"
        progress.say(f"interrupted: {states}; Ctrl-C again leaves no tables")
    threads = 1 if engine.name == "interpreter" else options.workers or len(os.sched_getaffinity(0))
    tables.clear()
    try:
        write(explored, tables.path, threads, progress)
    except BaseException:
        tables.clear()
        raise
    return count_tables(tables.path, model, len(explored.level_starts) - 1, explored.stopped_by)


def _about(request: Request, engine: str, written: WrittenTables, seconds: float) -> dict[str, Any]:
    return {
        **request.as_json(engine),
        "symmetry": request.symmetry,
        "complete": written.stopped_by is None,
        "stopped_by": written.stopped_by,
        "states": written.states,
        "transitions": written.transitions,
        "depth": written.depth,
        "violations": written.violations,
        "bytes": written.bytes,
        "seconds": round(seconds, 6),
        "versions": versions("tables"),
    }


def _lines(request: Request, written: WrittenTables, seconds: float, out: str) -> Iterator[str]:
    yield (
        f"{request.scenario.name}: {written.states:,} states, {written.transitions:,} transitions, "
        f"depth {written.depth}; {size(written.bytes)} in {out}, {seconds:.1f} s"
    )
    of_steps = {p.name for p in request.step_properties}
    for name, count in written.violations.items():
        if count:
            where = f"by {count:,} steps" if name in of_steps else f"in {count:,} states"
            yield f"  {name} is violated {where}"
    if written.stopped_by is not None:
        yield f"  the tables are not whole: {STOPPED[written.stopped_by]}"
