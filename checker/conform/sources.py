"""The bridge's Java sources, adapted to the classes of one Kafka. ``Versions.java`` says how.

A choice depends on what the jars have, never on a version's number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from highwater.checker.base.problems import InternalError
from highwater.checker.conform.class_files import ClassPath

_CONDITION = re.compile(r"([\w.$]*\.[A-Z][\w$]*)(?:\.([\w<>]+))?(?:\(([\w,]+)\))?")
_IMPORT = re.compile(r"^import ([a-z]\w*(?:\.[a-z]\w*)*)\.([A-Z]\w*)((?:\.\w+)*);$", re.MULTILINE)


def adapted(texts: Iterable[Path], classes: ClassPath) -> dict[str, str]:
    """The sources by file name, as they can be compiled against ``classes``. Lines keep their numbers."""
    paths = list(texts)
    own = {path.stem for path in paths}
    return {path.name: _imports(_chosen(path, classes), own, classes) for path in paths}


def _chosen(path: Path, classes: ClassPath) -> str:
    """The text without the lines of the alternatives that are not chosen."""
    lines, chosen = [], [True]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        word, _, condition = line.strip().removeprefix("//# ").partition(" ")
        marked = line.strip().startswith("//# ")
        if marked and word == "if":
            chosen.append(_holds(condition, classes))
        elif marked and word == "else" and len(chosen) > 1:
            chosen[-1] = not chosen[-1]
        elif marked and word == "end" and len(chosen) > 1:
            chosen.pop()
        elif marked:
            raise InternalError(f"{path.name}:{number}: {line.strip()} is no part of an alternative")
        lines.append("" if marked or not all(chosen) else line)
    return "\n".join(lines) + "\n"


def _holds(condition: str, classes: ClassPath) -> bool:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise InternalError(f"//# if {condition}: name a class, or a class and its method")
    declared = classes.get(match[1].replace(".", "/"))
    if declared is None or match[2] is None:
        return declared is not None
    types = f",{match[3]}," if match[3] else ","
    return any(member.name == match[2] and types in member.parameters for member in declared.members)


def _imports(text: str, own: set[str], classes: ClassPath) -> str:
    """The text with each import that names a class where the jars have it."""

    def place(found: re.Match[str]) -> str:
        name = f"{found[1].replace('.', '/')}/{found[2]}"
        if found[2] in own or name in classes or name.startswith("java/"):
            return found[0]
        return f"import {classes.moved(name).replace('/', '.')}{found[3]};"

    return _IMPORT.sub(place, text)


def missing(output: str, texts: Mapping[str, str]) -> str:
    """One sentence about the first error in the compiler's output: what Kafka lacks, and the file to change."""
    first = re.search(r"(?:^|[/\\])(\w+\.java):(\d+): error: (.*)", output, re.MULTILINE)
    if first is None:
        return f"the bridge does not compile: {' '.join(output.split())[:300]}"
    rest = output[first.end() :].split(": error: ")[0]
    symbol = re.search(r"symbol:\s+(.*)\n(?:\s*location:\s+(.*))?", rest)
    wanted = re.search(r"required: (.*)", rest)
    if symbol:
        place = f" in {symbol[2].strip()}" if symbol[2] else ""
        what = f"this Kafka has no {symbol[1].strip()}{place}"
    else:
        takes = f" (it takes {wanted[1].strip()})" if wanted else ""
        what = f"this Kafka has another API: {first[3].strip()}{takes}"
    line = texts[first[1]].splitlines()[int(first[2]) - 1].strip() if first[1] in texts else ""
    return f"{what}; Versions.java needs an alternative for {first[1]}:{first[2]}, `{line}`"
