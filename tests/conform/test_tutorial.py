"""The tutorial about a branch of Kafka, and the README, run in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_tutorials import ON_KAFKA, README
from tests.docs.tutorial import done
from tests.slow import slow


@slow("a tutorial; other tests of this folder run its commands")
@pytest.mark.parametrize(("page", "commands"), [(ON_KAFKA, 6), (README, 8)])
def test_the_commands_print_the_output_shown(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path, commands: int
) -> None:
    monkeypatch.chdir(tmp_path)
    assert done(page, tmp_path, kafka=True) == commands
