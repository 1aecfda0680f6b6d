"""The output of commands, pinned in ``transcript.txt``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checker.schema import result_problems
from tests.transcript import Transcript, played, sections


@pytest.mark.parametrize("name", sections(Path(__file__)))
def test_commands_print_what_the_transcript_has(name: str, pinned: Transcript, tmp_path: Path) -> None:
    """Each JSON result of these commands follows its schema, too."""

    def see(results: Any) -> None:
        for result in results:
            if "versions" in result:
                assert result_problems(result, form=result["versions"]["schema"].split("-")[1]) == []

    pinned(name, played(pinned.sections[name], tmp_path, see))
