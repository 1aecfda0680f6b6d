"""The command line, ``highwater``. A command is imported only when it is used, so that ``highwater`` starts quickly."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from highwater import __version__
from highwater.checker.base.memory import collect_garbage_rarely
from highwater.checker.base.problems import InputError, InternalError, Status

_COMMANDS = {
    "check": "Explore every reachable state of scenarios.",
    "simulate": "Walk at random through a scenario too large to explore.",
    "states": "Write a scenario's states and transitions as Parquet tables.",
    "prove": "Check a scenario with Z3: to a depth, or by induction.",
    "diff": "Find states where two sets of rules behave differently.",
    "explore": "Step through a scenario by hand, in a browser.",
    "plan": "Find out what can happen to a cluster if you do this now.",
    "replay": "Check a recording of a real cluster against the protocol.",
    "conform": "Compare Kafka's own controller with a scenario, request by request.",
    "mutate": "Change the protocol in many places; report which changes go undetected.",
    "gate": "Compare the protocol with a committed baseline (for CI).",
    "list": "List scenarios, protocols, rules, properties, actions.",
    "show": "Show one of these in full.",
}


_MOST_SAID = 4000
"""The most characters of an error message. A message can quote input of any length."""


class Commands(click.Group):
    """The group of all commands. It imports a command on use, and reports a bad request in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help page."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command with this name; None if there is none."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"highwater.checker.commands.{cmd_name}")
        found: click.Command = getattr(module, cmd_name.replace("list", "list_"))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The name and the command of the first argument, and the other arguments.

        Raises InputError if no command has this name.
        """
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from highwater.errors import unknown

            raise InputError(unknown("command", args[0], _COMMANDS))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help page, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse the arguments as click does. For ``--help``, this call prints the help page."""
        color = False if os.environ.get("NO_COLOR") else None  # no-color.org
        with _hidden_from_click():
            return super().make_context(*arguments, color=color, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the arguments name."""
        with _hidden_from_click():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command and exit with its status. A bad request or input is reported in one line on standard error."""
        extra["standalone_mode"] = False
        try:
            status = super().main(args, *rest, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as help:
            click.echo(help.format_message(), err=True)
            status = Status.BAD_REQUEST
        except click.UsageError as wrong:
            status = _refuse(wrong.format_message())
        except click.ClickException as wrong:
            status = _refuse(wrong.format_message())
        except InputError as wrong:
            status = _refuse(str(wrong))
        except (click.Abort, KeyboardInterrupt):
            click.echo("highwater: interrupted", err=True)
            status = Status.INTERRUPTED
        except (_ReaderLeftError, BrokenPipeError):
            _say_no_more()
            status = 128 + 13
        except OSError as wrong:
            # Without an error number: a library cannot be loaded, for example with too little memory.
            written = f"{wrong.filename or 'cannot write'}: {wrong.strerror}"
            status = _refuse(str(wrong) if wrong.errno is None else written)
            _say_no_more()
        except MemoryError as wrong:
            status = _refuse(f"out of memory: {str(wrong) or 'a limit of this process is reached'}")
        except Exception as wrong:
            status = _unforeseen(wrong)
        sys.exit(int(status) if isinstance(status, int) else Status.OK)


class _ReaderLeftError(Exception):
    """The reader of the standard output has closed the pipe."""


@contextmanager
def _hidden_from_click() -> Iterator[None]:
    """While inside, raise other exceptions in place of two that click would report wrongly.

    Click turns a closed pipe into status 1, and an EOFError into "interrupted".
    """
    try:
        yield
    except BrokenPipeError:
        raise _ReaderLeftError from None
    except EOFError as wrong:
        raise InternalError(f"EOFError: {wrong}") from wrong


def _say_no_more() -> None:
    """Flush the output. If that fails, discard the output, which Python would otherwise try to write again at exit."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
            continue
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unforeseen(wrong: Exception) -> Status:
    """Report an error that no command handles: a mistake in a protocol, a package that cannot be imported, or a defect.

    Returns the exit status.
    """
    from highwater.checker.base.problems import missing_library
    from highwater.model.language import LanguageError

    if isinstance(wrong, LanguageError):
        return _refuse(str(wrong))
    if (missing := missing_library(wrong)) is not None:
        return _refuse(missing)
    from highwater.checker.base import files

    place = files.write(wrong)
    kept = f"please send {place}" if place else "cannot write a report"
    what = str(wrong) if isinstance(wrong, InternalError) else f"{type(wrong).__name__}: {wrong}"
    what = what if len(what) <= _MOST_SAID // 2 else f"{what[: _MOST_SAID // 2]}…"
    _say(f"internal error: {what}; this is a defect of the checker, not of the protocol: {kept}")
    return Status.INTERNAL


def _refuse(message: str) -> Status:
    _say(message)
    return Status.BAD_REQUEST


def _say(message: str) -> None:
    """Print one line of bounded length on standard error."""
    message = " ".join(message.split())
    if len(message) > _MOST_SAID:
        message = f"{message[: _MOST_SAID - 1]}…"
    with suppress(OSError):
        click.echo(f"highwater: {message}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="highwater")
def cli() -> None:
    """Check models of Kafka's replication protocol, and recordings of real clusters against them."""


def main() -> None:
    """The entry point of the console script ``highwater``."""
    # Helper processes must not import modules from the current directory either.
    os.environ["PYTHONSAFEPATH"] = "1"
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream was closed when this process began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Replace each sign that the terminal cannot show, such as →.
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit(_refuse("the current directory was removed: change to another directory"))
    collect_garbage_rarely()
    cli(prog_name="highwater")


if __name__ == "__main__":
    main()
