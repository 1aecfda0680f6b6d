"""``python -m tests.house.size`` counts the tokens of product and tests, and fails above the figures in ``size.toml``.

A token is one of Python or Java. Comments, docstrings, brackets, commas and semicolons do not count, so that neither
formatting nor explanations do.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("size.toml")
PRODUCT = ("model", "invariants", "checker", "traces", "highwater")
GROUPS = {"product": PRODUCT, "tests": ("tests",)}
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
_JAVA = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_$][\w$]*|\d[\w.]*'
    r"|[-+*/%=<>!&|^~?:.@]+",
    re.DOTALL,
)


def python_tokens(path: Path) -> int:
    """The number of tokens in a Python file."""
    docstrings = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    with path.open("rb") as file:
        return sum(
            token.type not in _LAYOUT and token.string not in "()[]{},;" and token.start not in docstrings
            for token in tokenize.tokenize(file.readline)
        )


def java_tokens(path: Path) -> int:
    """The number of tokens in a Java file."""
    return sum(found["comment"] is None for found in _JAVA.finditer(path.read_text()))


def sizes(folder: str) -> Counter[str]:
    """The tokens below a top-level folder by package (two levels), with the number of files under ``files``."""
    found = Counter[str]()
    for path in sorted((ROOT / folder).rglob("*")):
        count = {".py": python_tokens, ".java": java_tokens}.get(path.suffix)
        if count is not None:
            package = "/".join(path.relative_to(ROOT).parts[:-1][:2])
            found[package] += count(path)
            found["files"] += 1
    return found


def main() -> int:
    """Print the sizes; returns 1 if product or tests are above their limit."""
    limits, status = tomllib.loads(LIMITS.read_text()), 0
    for group, folders in GROUPS.items():
        found = sum(map(sizes, folders), Counter[str]())
        files = found.pop("files")
        for package, tokens in sorted(found.items()):
            print(f"  {package:<28}{tokens:>9,}")
        print(f"{group}: {found.total():,} tokens in {files} files, limit {limits[group]:,}")
        if found.total() > limits[group]:
            print(f"{group}: above the limit in {LIMITS.relative_to(ROOT)}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
