"""Check the prose of pages, docstrings, comments and messages against `vocabulary.toml`.

The table lists words and beginnings of sentences to avoid, each with a replacement.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CODE = ("model", "invariants", "traces", "checker", "highwater", "docs")
_BLOCK = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\{\{.*?\}\}|\]\([^)]*\)", re.DOTALL)


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a Markdown page, each with its line number, without code, link targets and marks."""
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    blanked = _BLOCK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*[-*|#\d]))", blanked):
        yield line, paragraph.strip(" \n-*|#>")
        line += paragraph.count("\n")


def prose_of_module(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a Python module, and its strings that contain a space, each with its line number."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.strip("# ")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for number, paragraph in enumerate(re.split(r"\n\s*\n", node.value)):
                yield node.lineno + number, re.sub(r"``[^`]*``|`[^`\n]*`", "", paragraph).strip()


def prose_of_table(text: str) -> Iterator[tuple[int, str]]:
    """The comment lines of a TOML file, and its strings that contain a space, each with its line number."""
    for number, line in enumerate(text.splitlines(), 1):
        yield (
            number,
            line.partition("#")[2].strip()
            if line.startswith("#")
            else " ".join(re.findall(r'"([^"]* [^"]*)"', line)),
        )


READERS = {".md": prose_of_page, ".py": prose_of_module, ".toml": prose_of_table}


def files() -> Iterator[Path]:
    """All files whose prose is checked."""
    yield from ROOT.glob("*.md")
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in READERS and path != HERE / "vocabulary.toml":
                yield path


def complaints(path: Path, table: Mapping[str, Mapping[str, Collection[str]]]) -> Iterator[str]:
    """A line for each place where a file does not follow the vocabulary table."""
    name = path.relative_to(ROOT).as_posix()
    allowed = table["exceptions"]
    for line, text in READERS[path.suffix](path.read_text()):
        flat = " ".join(text.split())
        for pattern, instead in (*table["starts"].items(), *table["words"].items()):
            if pattern in table["starts"]:
                found = re.search(rf"(?:^|[.:;] ){pattern}", flat)
            else:
                found = re.search(rf"\b(?:{pattern})\b", flat, re.IGNORECASE)
            if found and pattern not in allowed.get(name, ()):
                context = flat[max(0, found.start() - 20) : found.end() + 50]
                yield f"{name}:{line}: {found[0].strip()!r}: {instead} ({context})"


def main() -> int:
    """Print every complaint. Returns 1 if there is a complaint, otherwise 0."""
    table = tomllib.loads((HERE / "vocabulary.toml").read_text())
    found = [line for path in files() for line in complaints(path, table)]
    print("\n".join(found) if found else "vocabulary: no retired word, no sentence without a subject")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
