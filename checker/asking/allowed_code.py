"""Which Python files a scenario may have executed: those in its own folder, and in folders that the user allows.

A scenario that somebody sent is read together with the protocol that it names, and a protocol is a program. So a
scenario names what lies beside it, and nothing else on this machine: not by ``..``, not from the root, not by a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from highwater.checker.base.problems import InputError

VARIABLE = "HIGHWATER_ALLOW_CODE"
"""The environment variable: folders, separated as those of PATH. It reaches helper processes, too."""
OPTION = "--allow-code"


def refuse_foreign(file: Path, folder: Path, who: str) -> None:
    """InputError where a file lies neither in this folder nor in one that is allowed, once all links are followed.

    ``who`` says what names the file.
    """
    try:
        real = os.path.realpath(file)
    except ValueError:
        raise InputError(f"{who}: {str(file)!r} cannot be the path of a file") from None
    if any(_is_inside(real, place) for place in (folder, *allowed())):
        return
    raise InputError(
        f"{who}: {file} is outside of the folder {folder}, and would be executed; {OPTION} DIR allows what is in DIR"
    )


def allowed() -> list[Path]:
    """The folders that the user allows besides."""
    return [Path(place) for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]


@contextmanager
def allowing(folders: Iterable[str | Path]) -> Iterator[None]:
    """While inside, these folders are allowed besides, in this process and in those that it starts.

    Raises InputError where the name of one cannot be handed on.
    """
    before = os.environ.get(VARIABLE)
    added = [os.path.realpath(folder) for folder in folders]
    for folder in added:
        if os.pathsep in folder:
            raise InputError(f"{OPTION} {folder}: a folder with {os.pathsep!r} in its name cannot be allowed")
    os.environ[VARIABLE] = os.pathsep.join([*filter(None, [before]), *added])
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _is_inside(real: str, folder: Path) -> bool:
    place = os.path.realpath(folder)
    return os.path.commonpath([real, place]) == place
