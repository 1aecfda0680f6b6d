"""Options that several commands share.

A decorator adds a group of options, and passes their values as one argument: ``overrides`` has the settings that
override the scenario's file, ``engine`` has the engine, and ``options`` has the bounds of a search.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click

from highwater.checker.base.problems import Status, environment
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.by_name import Engine
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.request import Overrides
from highwater.checker.scenarios.search import SearchOptions

Command = TypeVar("Command", bound=Callable[..., Any])
Function = Callable[..., Status]

MOST_WORKERS = 1024
"""The most threads or processes that ``--workers`` accepts."""
MOST_MEMORY = 2**20
"""The largest number of GiB for ``--memory``; a larger number counts as this one."""


class Positive(click.FloatRange):
    """A click type for numbers that are above zero and finite."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert a value to a number. An infinite number, or nan, is a usage error."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number above 0.", param, ctx)
        return number


rule_option = click.option(
    "--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule on or off; may repeat."
)
engine_option = click.option(
    "--engine",
    type=click.Choice(engines.NAMES),
    default=engines.DEFAULT,
    show_default=True,
    help="native: compiled; interpreter: the reference in Python; spark: a cluster.",
)
spark_master_option = click.option(
    "--spark-master", metavar="URL", help="The cluster's master, with --engine spark.  [default: local[*]]"
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    metavar="N",
    help="Threads or processes to use.  [default: all cores]",
)
limit_states_option = click.option(
    "--limit-states", type=click.IntRange(1), metavar="N", help="Stop after N states, nearest first."
)
limit_seconds_option = click.option(
    "--limit-seconds",
    type=Positive(),
    metavar="S",
    help="Stop after S seconds.",
)
memory_option = click.option(
    "--memory",
    "memory_bytes",
    type=Positive(),
    metavar="GIB",
    callback=lambda context, option, value: None if value is None else int(min(value, MOST_MEMORY) * 2**30),
    help="Memory that the engine may use, in GiB.",
)
first_option = click.option("--first", is_flag=True, help="Stop at the depth of the first violation.")
fresh_option = click.option("--fresh", is_flag=True, help="Explore also what has not changed.")
json_option = click.option(
    "--json", "json_file", metavar="FILE", help="Write the result as JSON to FILE; - is standard output."
)
verbose_option = click.option(
    "--verbose",
    is_flag=True,
    help="List every scenario and counterexample, with the whole state after each step.",
)


def html_option(what: str) -> Callable[[Command], Command]:
    """The option ``--html``. ``what`` names the runs on the page, in the help text."""
    return click.option(
        "--html", "html", metavar="FILE", help=f"Write {what} as an HTML page to step through."
    )


def _without_cache() -> AbstractContextManager[None]:
    """While inside, this process and the processes that it starts do not use the cache."""
    from highwater.checker.engines import cache as code_cache

    return environment(code_cache.VARIABLE, code_cache.OFF)


cache_option = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=lambda context, option, off: context.with_resource(_without_cache()) if off else None,
    help="Do not read or write the cache of machine code and results.",
)

allow_code_option = click.option(
    catalogue.ALLOW_CODE,
    "allow_code",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    multiple=True,
    expose_value=False,
    callback=lambda context, option, folders: context.with_resource(catalogue.allowing(folders)),
    help="Also execute protocol files in DIR, not only beside the scenario; may repeat.",
)


def quiet_option(left: str) -> Callable[[Command], Command]:
    """The option ``--quiet``. ``left`` names the output that is still printed, in the help text."""
    return click.option("--quiet", is_flag=True, help=f"Print {left} only, without progress.")


def model_options(*, deadlock: bool = True, symmetry: bool = False) -> Callable[[Function], Function]:
    """A decorator that adds the options that override the scenario's file, as the argument ``overrides``.

    ``deadlock`` and ``symmetry`` include the options of these names.
    """
    options = [
        click.option(
            "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a parameter; may repeat."
        ),
        rule_option,
        click.option("--profile", metavar="NAME", help="Use this profile's rules."),
        click.option(
            "--property",
            "properties",
            metavar="NAME",
            multiple=True,
            help="Check only this property; may repeat.",
        ),
    ]
    if deadlock:
        meaning = "Whether a state without steps is a violation."
        options.append(click.option("--deadlock/--no-deadlock", default=None, help=meaning))
    if symmetry:
        meaning = "Whether to use symmetry reduction."
        options.append(click.option("--symmetry/--no-symmetry", default=None, help=meaning))
    return _as_one("overrides", Overrides.parse, [*options, allow_code_option])


def search_options(function: Function) -> Function:
    """A decorator that adds the options that bound a search, and passes them as the argument ``options``."""
    spill = click.option(
        "--spill",
        "spill_directory",
        type=click.Path(exists=True, file_okay=False, writable=True),
        metavar="DIR",
        help="Directory for states that do not fit in memory.",
    )
    options = [workers_option, limit_states_option, limit_seconds_option, memory_option, spill]
    function = cache_option(function)

    def bounds(workers: int | None, **others: Any) -> SearchOptions:
        return SearchOptions(workers=workers or 0, **others)

    return _as_one("options", bounds, options)(function)


def search_engine_options(function: Function) -> Function:
    """A decorator that adds the options of engine, Spark and checkpoint, and passes them as the argument ``engine``."""
    options = [
        engine_option,
        spark_master_option,
        click.option(
            "--checkpoint",
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="Save finished levels of the search of one SCENARIO in DIR, to resume from.",
        ),
        click.option("--resume", is_flag=True, help="Continue the search saved in --checkpoint DIR."),
    ]
    return _as_one("engine", lambda engine, **spark: Engine(engine, **spark), options)(function)


def _as_one(
    argument: str, make: Callable[..., object], options: Sequence[Callable[[Function], Function]]
) -> Callable[[Function], Function]:
    """A decorator that adds ``options``, and passes ``make(**values)`` to the command as ``argument``."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*arguments: Any, **given: Any) -> Status:
            values = {name: given.pop(name) for name in names}
            return function(*arguments, **given, **{argument: make(**values)})

        decorated: Function = call
        before = len(getattr(call, "__click_params__", ()))
        for option in reversed(options):
            decorated = option(decorated)
        added = decorated.__click_params__[before:]  # type: ignore[attr-defined]
        names = [option.name for option in added if option.expose_value]
        return decorated

    return decorate


def trace_option(what: str) -> Callable[[Command], Command]:
    """The option ``--trace-out``. ``what`` names the written run, in the help text."""
    return click.option(
        "--trace-out",
        metavar="FILE",
        help=f"Write {what} as a trace; as ITF if FILE ends with .itf.json.",
    )
