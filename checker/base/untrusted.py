"""Small files of text that somebody gives: TOML and JSON, read in bounded memory and never believed.

What is no regular file (a pipe, a device, a directory) is refused before it is read; so is what is too large, nested
too deeply, no text, or holds a number that no field has. Each is an InputError, one line.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.traces.reading import distinct, refuse_constant

MOST_BYTES = 16 << 20
"""The largest file that is read as a whole. The baseline of all scenarios has a hundredth of it."""
MOST_VALUES = 1_000_000
"""Values in a file: each takes up to a hundred bytes of memory, and two of its text."""
MOST_DEPTH = 50
"""Tables and lists within each other."""
_INT64 = 1 << 63


def read_text(path: Path) -> str:
    """A file's text. InputError where there is none; FileNotFoundError where there is no file."""
    try:
        # Without waiting for whoever writes: it might be a pipe.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as file:
            mode = os.fstat(opened).st_mode
            if not stat.S_ISREG(mode):
                raise InputError(f"{path}: {'Is a directory' if stat.S_ISDIR(mode) else 'not a file'}")
            if os.fstat(opened).st_size > MOST_BYTES:
                raise InputError(f"{path}: larger than {MOST_BYTES:,} bytes")
            return file.read(MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as wrong:
        raise InputError(f"{path}: {wrong.strerror or wrong}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text in UTF-8") from None
    except ValueError:  # a NUL
        raise InputError(f"{str(path)!r} cannot be the path of a file") from None


def toml(path: Path, text: str) -> dict[str, Any]:
    """What a text is as TOML. InputError, with the line where one is to blame, where it is none."""
    _refuse_many(path, text)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        place = re.search(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$", str(wrong))
        message = str(wrong)[: place.start()] if place else str(wrong)
        line = place[1] if place and place[1] else text.count("\n") + 1
        raise InputError(f"{path}:{line}: not TOML: {message}") from None
    except ValueError as wrong:
        raise InputError(f"{path}: not TOML: {wrong}") from None
    except RecursionError:
        raise _too_deep(path) from None
    _refuse_extremes(path, found)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file. InputError as above; FileNotFoundError where there is none."""
    return toml(path, read_text(path))


def read_json(path: Path) -> Any:
    """A file that is one JSON value. InputError where it is none; FileNotFoundError where there is no file."""
    text = read_text(path)
    _refuse_many(path, text)
    try:
        found = json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as wrong:
        raise InputError(f"{path}: not JSON: {wrong}") from None
    _refuse_extremes(path, found)
    return found


def _refuse_many(path: Path, text: str) -> None:
    """Refuse more values than there is memory for: each of them has one of these signs."""
    if sum(map(text.count, "{[,=.")) > MOST_VALUES:
        raise InputError(f"{path}: more than {MOST_VALUES:,} values")


def _too_deep(path: Path) -> InputError:
    return InputError(f"{path}: nested too deeply")


def _refuse_extremes(path: Path, found: Any) -> None:
    """Refuse what an error could not even show: values in each other without end, and numbers of any length."""
    left = [(found, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, (dict, list)):
            if depth == MOST_DEPTH:
                raise _too_deep(path)
            inside = value.values() if isinstance(value, dict) else value
            left += [(inner, depth + 1) for inner in inside]
        elif isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise InputError(f"{path}: a number that is not one of 64 bits")
