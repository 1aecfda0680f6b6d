"""The pages about releases are written from results that are kept, and replay names only defects that happen."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from docs.pages import releases
from docs.pages.markdown import FOLDER
from highwater.traces.reports.findings import _PROFILES, CONDITIONS


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    """The kept results."""
    found: dict[str, Any] = json.loads((FOLDER / "releases.json").read_text(encoding="utf-8"))
    return found


def test_the_pages_are_those_of_the_kept_results(kept: dict[str, Any]) -> None:
    for page, text in releases.pages(kept).items():
        assert page.read_text(encoding="utf-8") == text, f"run python -m docs.pages.releases: {page.name}"


def test_each_release_is_compared_and_has_each_finding(kept: dict[str, Any]) -> None:
    listed = tomllib.loads((FOLDER / "kafka.toml").read_text(encoding="utf-8"))
    names = {finding["name"] for kind in ("finding", "request") for finding in listed[kind]}
    assert set(kept["changes"]) == {*releases.RELEASES[1:]}
    assert set(kept["findings"]) == {*releases.RELEASES} == {*releases.PROFILES}
    assert all(set(found) == names for found in kept["findings"].values())


def test_replay_names_a_defect_only_where_it_happens(kept: dict[str, Any]) -> None:
    for release, found in kept["findings"].items():
        if releases.PROFILES[release] in _PROFILES:
            assert {found[name] for name in CONDITIONS} == {releases.HAPPENS}, release
