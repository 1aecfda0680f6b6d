"""The server of the explorer's page: only for this machine, with a secret in the address, and read-only.

No request changes anything: an answer depends only on the request. The server accepts only the host names 127.0.0.1
and localhost, so that a web page on another site cannot read answers by DNS rebinding.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from highwater.checker.base.problems import InputError
from highwater.checker.explore.session import Answers, examples
from highwater.checker.report.page.content import about, page

HOST = "127.0.0.1"
_MOST = 64 << 10
"""The most bytes in the query string of a request."""


class Application:
    """The WSGI application. ``/TOKEN/`` is the page, and ``/TOKEN/NAME?…`` the result of ``Answers`` as JSON."""

    def __init__(self, views: Answers, page: str, token: str) -> None:
        self.views, self.page, self.token = views, page, token

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one WSGI request."""
        request = Request(environment)
        try:
            response = self.answer(request)
        except HTTPException as wrong:
            response = wrong.get_response(environment)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response(environment, start)

    def answer(self, request: Request) -> Response:
        """The page, or data as JSON. Raises HTTPException for an unknown address, host or method."""
        if request.host.rpartition(":")[0] not in (HOST, "localhost"):
            raise NotFound
        token, _, name = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise NotFound
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(["GET", "HEAD"])
        if not name:
            return Response(self.page, content_type="text/html; charset=utf-8")
        if name not in self.views.answers or len(request.query_string) > _MOST:
            raise NotFound
        try:
            answer, status = self.views.answers[name](request.args), 200
        except InputError as wrong:
            answer, status = {"error": str(wrong)}, 400
        return Response(json.dumps(answer), status, content_type="application/json")


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Do nothing: requests are not logged."""


def serve(views: Answers, page: str, port: int = 0) -> tuple[BaseWSGIServer, str]:
    """Start a server, and return it with its address; port 0 means any free port.

    Raises InputError if the port is not available.
    """
    token = secrets.token_urlsafe(24)
    try:
        server = make_server(HOST, port, Application(views, page, token), request_handler=_Quiet)
    except (OSError, SystemExit) as wrong:
        raise InputError(f"--port {port}: {getattr(wrong, 'strerror', None) or 'is in use'}") from None
    return server, f"http://{HOST}:{server.port}/{token}/"


def page_file(name: str) -> str:
    """The text of a file in this package's folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def explorer_page(views: Answers) -> str:
    """The text of the explorer's page, which requests its data from the server."""
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
