"""The tutorial about a branch of Kafka, run in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_tutorials import ON_KAFKA
from tests.docs.tutorial import done
from tests.slow import slow


@slow("a tutorial; other tests of this folder run its commands")
def test_the_tutorials_commands_print_the_output_shown(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert done(ON_KAFKA, tmp_path) == 6
