"""The quorum pages match the model and the engines, and state the expected results."""

from __future__ import annotations

import pytest

from docs.pages import kept
from docs.pages.galleries import QUORUM as GALLERY

SOME = ("before-kip-1166", "growth-completes-nothing", "busy-loop")


@pytest.mark.parametrize("name", SOME)
def test_a_defect_is_found_and_shown_as_committed(name: str) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = list(GALLERY.run(name))
    with kept.in_mode(kept.Mode.AFRESH):
        assert list(GALLERY.run(name)) == before
