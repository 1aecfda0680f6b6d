"""A public class name is used once; exceptions are listed with a reason."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

from tests.house.test_any import PRODUCT
from tests.house.test_sizes import sources

LISTED = tomllib.loads((Path(__file__).parent / "names.toml").read_text(encoding="utf-8"))["shared"]


def classes(text: str) -> set[str]:
    """The public top-level classes of a source."""
    return {
        n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")
    }


def shared() -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, text in sources():
        if name.startswith(PRODUCT):
            for found in classes(text):
                places[found].append(name)
    return {name: at for name, at in places.items() if len(at) > 1}


def test_a_public_class_name_is_used_once() -> None:
    assert shared() == {name: entry["at"] for name, entry in LISTED.items()}, (
        "call it otherwise, or say why not"
    )


def test_every_shared_name_has_a_reason() -> None:
    for name, entry in LISTED.items():
        assert set(entry) == {"at", "why"}, name
        assert len(entry["why"].split()) > 3, name


def test_classes_finds_public_classes_at_the_top_level() -> None:
    text = "class A:\n    class B: ...\n\n\nclass _C: ...\n\n\ndef f():\n    class D: ...\n"
    assert classes(text) == {"A"}
