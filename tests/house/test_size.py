"""The counter of tokens: what counts, and that more than the limit fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import size

PYTHON = '"""A page."""\n# why\ndef f(a, b):\n    """What."""\n    return a[b] + "x"\n'
JAVA = '/* a\n page */ class A { String s = "// no comment"; // why\n int f(int a) { return a >>= 2; } }\n'


def test_comments_docstrings_and_brackets_do_not_count(tmp_path: Path) -> None:
    for name, text, count, tokens in (
        ("a.py", PYTHON, size.python_tokens, "def f a b : return a b + x"),
        ("A.java", JAVA, size.java_tokens, "class A String s = text int f int a return a >>= 2"),
    ):
        (tmp_path / name).write_text(text)
        assert count(tmp_path / name) == len(tokens.split())


def test_more_than_the_limit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("model/a.py", "model/language/b.py", "tests/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(PYTHON)
    monkeypatch.setattr(size, "ROOT", tmp_path)
    monkeypatch.setattr(size, "LIMITS", tmp_path / "size.toml")
    for product, status in ((20, 0), (19, 1)):
        (tmp_path / "size.toml").write_text(f"product = {product}\ntests = 10\n")
        assert size.main() == status
        said = capsys.readouterr()
        assert f"product: 20 tokens in 2 files, limit {product}\n" in said.out
        assert "tests: 10 tokens in 1 files, limit 10\n" in said.out
        assert said.err == ("product: above the limit in size.toml\n" if status else "")
