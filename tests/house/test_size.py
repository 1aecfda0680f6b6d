"""The counter of tokens: what counts, and that more than the limit fails."""

from __future__ import annotations

from pathlib import Path

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
