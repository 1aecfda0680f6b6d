"""What all tests share: machine code that is kept, and which of them run in one process where there are several."""

from __future__ import annotations

import os

import pytest

from highwater.checker import code_cache

TOGETHER = ("tests/spark/", "tests/states/")
"""Folders whose tests run in one process: starting Spark costs more than any of them."""


def pytest_configure(config: pytest.Config) -> None:
    """Tests, and what they start, keep their code in the checkout: not in the user's own cache, nor from it."""
    place = config.rootpath / ".pytest_cache" / "code"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ[code_cache.VARIABLE] = str(place)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of a file run in one process, one after the other, as what they share is made once a file."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        file = item.nodeid.split("::", maxsplit=1)[0]
        group = next((folder for folder in TOGETHER if file.startswith(folder)), file)
        item.add_marker(pytest.mark.xdist_group(group))
