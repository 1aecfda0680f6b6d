"""Where ``--html`` writes runs: a page to step through, on which nothing is written where there is no run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from highwater.checker.asking.request import Request
from highwater.checker.base.output import refuse_unwritable
from highwater.checker.telling.page.shown import ShownRun

Command = TypeVar("Command", bound=Callable[..., Any])


def html_option(what: str) -> Callable[[Command], Command]:
    """The option ``--html``; ``what`` says which runs are on the page."""
    return click.option("--html", "html", metavar="FILE", help=f"Write {what} as a page to step through.")


class PageOutput:
    """The target of ``--html``. It is looked at at once: a long search must not end without its page."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        if target is not None:
            refuse_unwritable("--html", target)

    def write(self, request: Request, runs: Sequence[ShownRun], none: str) -> str:
        """Write the page of a scenario's runs; otherwise as ``write_about``."""
        from highwater.checker.telling.page.content import about

        return self.write_about(request.scenario.title or request.scenario.name, about(request), runs, none)

    def write_about(
        self, title: str, about: Sequence[tuple[str, str]], runs: Sequence[ShownRun], none: str
    ) -> str:
        """Write a page of runs and tell how many they are; ``none`` is said where there are none.

        ``about`` is what is to be known of all of them, by names.
        """
        from highwater.checker.telling.page.writing import write_page

        assert self.target is not None
        if not runs:
            return f"--html {self.target}: not written, as {none}"
        write_page(self.target, title, runs, about)
        return f"--html {self.target}: {len(runs)} run{'' if len(runs) == 1 else 's'} to step through"
