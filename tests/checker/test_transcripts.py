"""The output of commands, pinned in ``transcript.txt``."""

from __future__ import annotations

from pathlib import Path

from tests.transcript import Transcript, played


def test_commands_print_what_the_transcript_has(pinned: Transcript, tmp_path: Path) -> None:
    for name, section in pinned.sections.items():
        folder = tmp_path / name
        folder.mkdir()
        pinned(name, played(section, folder))
