"""How many functions are called on three ways through the code, and how often the way changes the room.

Each function counts where it is called first. A room is a package: of `checker/`, `traces/` and `docs/` the second
part of a path, of a protocol the whole. A hop goes to another room, a return to one that was in already. The pages
tell of these ways in docs/architecture.md.

    python -m docs.bench.walks
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

from click.testing import CliRunner

import highwater

ROOT = Path(highwater.__file__).parents[1]
LANGUAGE = "model/language"


@dataclass
class Walk:
    """The functions that were called below some folders, in the order of their first calls, by file."""

    below: tuple[str, ...]
    without: tuple[str, ...] = ()
    files: list[str] = field(default_factory=list)
    _seen: dict[CodeType, None] = field(default_factory=dict)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """While inside, what this thread calls is noted."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen or code.co_name.startswith("<"):
            return
        self._seen[code] = None
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix().removeprefix("highwater/")
            if name.startswith(self.below) and not name.startswith(self.without or ("\0",)):
                self.files.append(name)

    def rooms(self) -> list[str]:
        """The rooms one after the other."""
        return [room for room, _ in groupby(map(_room, self.files))]

    def told(self) -> str:
        """The counts, and the rooms themselves."""
        rooms = self.rooms()
        counts = (
            f"{len(self.files)} functions in {len(set(self.files))} files, {len(set(rooms))} rooms, "
            f"{len(rooms) - 1} hops, {len(rooms) - len(set(rooms))} returns"
        )
        return f"{counts}\n  {' - '.join(rooms)}"


def _room(file: str) -> str:
    parts = file.split("/")[:-1]
    if parts[0] == "model":
        return "/".join(parts[1:]) or parts[0]
    if parts[0] == "invariants":
        return parts[0]
    if parts[:2] == ["traces", "metadata"]:
        return parts[2] if len(parts) > 2 else file.rpartition("/")[2].removesuffix(".py")
    return parts[1] if len(parts) > 1 and parts[0] != "docs" else "/".join(parts)


def scenario() -> Walk:
    """From the command to the report: `highwater check truncation/kip-101`."""
    from highwater.checker.cli import cli

    walk = Walk(("checker/",))
    with walk.taken():
        CliRunner().invoke(cli, ["check", "truncation/kip-101"])
    return walk


def record() -> Walk:
    """A change of a partition that was not seen before, from its batch to the report: an ISR shrinks."""
    from highwater.traces.metadata import replay as replaying
    from highwater.traces.replay import replay
    from tests.traces.metadata import made_logs

    follower = next(c for c in vars(replaying).values() if isinstance(c, type) and hasattr(c, "take"))
    walk, values = Walk(("traces/",)), [*made_logs.beginning(), made_logs.change(0, isr=[0, 1])]
    with tempfile.TemporaryDirectory() as folder, _at_call(follower, "take", len(values), walk):
        replay(made_logs.write(Path(folder), values))
    return walk


def rule() -> Walk:
    """From the scenario that takes 966.1 off to the picture of what breaks, without the language of models."""
    from docs.analyses import defects, kept
    from highwater.checker.telling.charts.lanes import SequenceChart

    walk = Walk(("docs/analyses/", "checker/", "model/", "invariants/"), (LANGUAGE,))
    with walk.taken(), kept.in_mode(kept.Mode.AFRESH):
        found = defects.find("weak-writes")
        SequenceChart(found.model.protocol).mermaid(found.examples[0])
    return walk


@contextmanager
def _at_call(of: type, method: str, number: int, walk: Walk) -> Iterator[None]:
    """Note what the n-th call of a method does."""
    honest, calls = getattr(of, method), iter(range(1, sys.maxsize))

    def call(*arguments: object) -> object:
        if next(calls) != number:
            return honest(*arguments)
        with walk.taken():
            return honest(*arguments)

    setattr(of, method, call)
    try:
        yield
    finally:
        setattr(of, method, honest)


def main(walks: Iterable[Callable[[], Walk]] = (scenario, record, rule)) -> None:
    """Take each and print its counts."""
    for walk in walks:
        print(f"{walk.__name__}: {walk().told()}")


if __name__ == "__main__":
    main()
