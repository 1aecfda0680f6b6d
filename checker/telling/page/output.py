"""Where ``--html`` writes runs: a page to step through, on which nothing is written where there is no run."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from highwater.checker.asking.request import Request
from highwater.checker.base.output import refuse_unwritable, write_text
from highwater.checker.telling.page.content import content
from highwater.checker.telling.page.shown import ShownRun
from highwater.traces.reports.page import as_json, policy, signs

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
        from highwater.checker.telling.page.output import write_page

        assert self.target is not None
        if not runs:
            return f"--html {self.target}: not written, as {none}"
        write_page(self.target, title, runs, about)
        return f"--html {self.target}: {len(runs)} run{'' if len(runs) == 1 else 's'} to step through"


_HERE = Path(__file__).parent


def page(data: Mapping[str, Any], *, style: str = "", script: str = "", asks: bool = False) -> str:
    """The text of the page. Nothing of the data is ever HTML: the script only sets text (``embedding``).

    ``style`` and ``script`` are put to its own, the script before the one that draws runs; ``asks`` lets the page ask
    the server that it comes from, and nobody else.
    """
    text = (_HERE / "run.html").read_text(encoding="utf-8")
    own = {name: (_HERE / name).read_text(encoding="utf-8") for name in ("run.css", "drawing.js", "run.js")}
    style = signs() + own["run.css"] + style
    script = own["drawing.js"] + script + own["run.js"]
    text = text.replace("{{style}}", style, 1).replace("{{script}}", script, 1)
    text = text.replace("{{policy}}", policy(text, asks=asks), 1)
    plain = "\n\n".join(run["markdown"] for run in data["runs"])
    text = text.replace("{{plain}}", html.escape(plain, quote=True), 1)
    before, _, after = text.rpartition("{{data}}")
    return f"{before}{as_json(data)}{after}"


def write_page(target: str, title: str, runs: Sequence[ShownRun], about: Sequence[tuple[str, str]]) -> None:
    """Write the file that ``--html`` names; InputError where it cannot be written."""
    write_text("--html", target, page(content(title, runs, about)))
