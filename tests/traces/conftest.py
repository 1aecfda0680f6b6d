"""``--renew``: write the transcript of the reports anew, instead of comparing with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
HEAD = "=== "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="write tests/traces/transcript.txt anew")


@pytest.fixture(scope="session")
def pinned(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Compare a text with the transcript's section of this name; with ``--renew``, replace the section."""
    renews = pytestconfig.getoption("--renew", default=False)
    before = "" if renews else TRANSCRIPT.read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in f"\n{before}".split(f"\n{HEAD}")[1:])

    def compare(name: str, text: str) -> None:
        if renews:
            sections[name] = f"{text.rstrip()}\n"
            parts = (f"{HEAD}{name}\n{text}" for name, text in sorted(sections.items()))
            TRANSCRIPT.write_text("\n".join(parts), encoding="utf-8")
        assert text.rstrip().splitlines() == sections.get(name, "").rstrip().splitlines()

    return compare
