"""Pages of runs, written once, and one browser for all tests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import highwater

REQUIRED = "HIGHWATER_NEEDS_BROWSER"
"""If this environment variable is set, as in continuous integration, a missing browser fails the tests."""
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

HOSTILE = '''
from highwater.model.language import Enum, Int, Protocol, Seq, Struct, action, invariant, require

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\\"'`&lt;"

@invariant(EVIL)
def below(m, s):
    """</script><script>alert(3)</script> stays <b>below</b> "two"."""
    return (s.count < 2) | (s.kind == "x<b>")

class Hostile(Protocol):
    name = "hostile"
    invariants = (below,)

    def define(self):
        return Struct("State", count=Int(0, 3), kind=Enum("Kind", ["a</script>", "x<b>"]))

    def initial(self):
        return [{"count": 0, "kind": "a</script>"}]

    @action(EVIL, says=EVIL + " ‮ counts")
    def increase(self, s):
        require("</td><script>alert(4)</script>", s.count < 3)
        s.next.count = s.count + 1

    @action(says="never <b>taken</b>")
    def never(self, s):
        require("<img src=x onerror=alert(5)>", s.count > 2)
        s.next.count = 0
'''


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write the page of a command; equal arguments share one page."""
    found: dict[tuple[str, ...], Path] = {}

    def write(*arguments: str) -> Path:
        if arguments not in found:
            page = tmp_path_factory.mktemp("page") / "run.html"
            done = highwater(*arguments, "--html", page)
            assert done.status in (0, 1), done
            found[arguments] = page
        return found[arguments]

    return write


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A scenario whose texts would all run a script if the page did not escape them."""
    tree = tmp_path_factory.mktemp("hostile")
    (tree / "hostile.py").write_text(HOSTILE)
    title = "</script><script>alert(6)</script> {{data}} {{policy}}"
    (tree / "hostile.toml").write_text(f"title = '{title}'\nprotocol = \"hostile.py\"\n")
    return str(tree / "hostile.toml")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        missing = "no browser: these tests need playwright and Debian's chromium"
        if os.environ.get(REQUIRED):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@contextmanager
def watched(browser: Any, *, width: int = 1280, dark: bool = False, server: str = "file:") -> Iterator[Any]:
    """A page in a window. Console messages, errors, dialogs, policy violations and foreign requests fail the test.

    A server's error is a console message too, so with a server only policy violations count.
    """
    complaints: list[str] = []
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(60_000)
    said = "" if server == "file:" else "policy: "
    page.on("console", lambda m: complaints.extend([m.text] if m.text.startswith(said) else []))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda r: complaints.extend([] if r.url.startswith((server, "blob:")) else [r.url]))
    page.add_init_script(
        "document.addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.blockedURI))"
    )
    yield page
    context.close()
    assert complaints == []


def assert_scheme(page: Any, *, dark: bool) -> None:
    """Check that the page's ground and ink follow the reader's choice of light or dark."""
    colours = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
    ground, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert (ground < 150 and ink > 600) if dark else (ground > 600 and ink < 150)
