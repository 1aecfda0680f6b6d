"""The page as one file of HTML: the template with its style and its script in it, and the data as JSON."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.checker.base.output import write_text
from highwater.checker.telling.page.content import content
from highwater.checker.telling.page.shown import ShownRun
from highwater.traces.reports.embedding import as_json, policy, signs

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
