"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from checker import engines

Command = TypeVar("Command", bound=Callable[..., Any])

json_output = click.option(
    "--json", "json_file", metavar="FILE", help="Write the result as JSON; - is standard output."
)


def model_options(function: Command) -> Command:
    """What is set over the scenario's file."""
    return _together(
        function,
        click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a parameter."),
        click.option("--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule."),
        click.option("--profile", metavar="NAME", help="Start from another set of rules."),
        click.option(
            "--property",
            "properties",
            metavar="NAME",
            multiple=True,
            help="Only these properties; may repeat.",
        ),
    )


def scenario_options(function: Command) -> Command:
    """What is set over the scenario's file, for a command that gives a verdict."""
    deadlock = click.option(
        "--deadlock/--no-deadlock", default=None, help="Whether a state without a step is a violation."
    )
    return model_options(_together(function, deadlock))


def run_options(function: Command) -> Command:
    """How the engine runs, and what is printed."""
    return _together(
        function,
        click.option(
            "--engine", type=click.Choice(engines.NAMES), default=engines.DEFAULT, show_default=True
        ),
        click.option(
            "--workers",
            type=click.IntRange(1),
            metavar="N",
            help="Threads of the native engine.  [default: all cores]",
        ),
        click.option(
            "--limit-seconds",
            type=click.FloatRange(0, min_open=True),
            metavar="S",
            help="Stop after so many seconds for a scenario.",
        ),
        json_output,
        click.option("--verbose", is_flag=True, help="Show every run, with the whole state after each step."),
        click.option("--quiet", is_flag=True, help="No progress, no runs, no notes: only the verdict table."),
    )


def spark_options(function: Command) -> Command:
    """Where the Spark engine runs, and where it keeps its levels."""
    return _together(
        function,
        click.option(
            "--spark-master", metavar="URL", help="Spark engine: the cluster's master.  [default: local[*]]"
        ),
        click.option(
            "--checkpoint",
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="Spark engine: keep the levels of the one SCENARIO there.",
        ),
        click.option(
            "--resume", is_flag=True, help="Spark engine: go on from the last level in --checkpoint."
        ),
    )


def _together(function: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function
