"""The page of the explorer: that of a run, with what asks the server put before it."""

from __future__ import annotations

from typing import Any

from highwater.checker.explore.examples import examples
from highwater.checker.explore.server import page_file
from highwater.checker.explore.views import Answers
from highwater.checker.telling.page.content import about
from highwater.checker.telling.page.writing import page


def explorer_page(views: Answers) -> str:
    """The text of the page; what it shows it asks for."""
    request = views.request
    data: dict[str, Any] = {
        "title": f"Exploring {request.scenario.name}",
        "about": [list(pair) for pair in about(request)],
        "rules": {},
        "runs": [],
        "examples": list(examples(views.session.model.protocol.state)),
        "switches": [[name, on] for name, on in request.rules.items()],
    }
    return page(data, style=page_file("explore.css"), script=page_file("explore.js"), asks=True)
