"""Run the fuzzer: give changed files to all readers, and report failures and memory use.

    python -m tests.fuzzing.run --seed 1 --count 5000 --keep found

prints progress, then one line of JSON. Each file that failed is kept in the directory, with its exception.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from highwater.checker.base.memory import peak_memory
from tests.fuzzing import changes, readers, samples

CPU_SECONDS = 30
"""Processor time of a file; more counts as a hang."""
REQUESTS, OPTIONS = "explorer's request", "options"
ROOM = 4 << 30
"""Bytes of address space: a file that needs more fails, and the machine survives."""
GROWTH = 8 << 20
"""Bytes by which a file must make the process grow to be reported."""
ODD = 0.04
"""The share of paths that are no regular file."""


class Hang(BaseException):
    """A file exceeded CPU_SECONDS."""


class Fuzzer:
    """The samples and the failures found so far."""

    def __init__(self, folder: Path, seed: int, keep: Path | None) -> None:
        self.folder, self.seed, self.keep = folder, seed, keep
        self.samples = samples.write(folder / "samples")
        self.known = {
            kind: next(path.glob("*.log")) if path.is_dir() else path for kind, path in self.samples.items()
        }
        self.content = {kind: path.read_bytes() for kind, path in self.known.items()}
        self.kinds = [*readers.READERS, REQUESTS, OPTIONS]
        self.tracebacks: list[str] = []
        self.hangs: list[str] = []
        self.done: Counter[str] = Counter()
        self.hanging = False
        self.growth: list[str] = []
        """Files that raised the peak memory, and the new peak."""
        self.peak = peak_memory()

    def one(self, number: int) -> None:
        """Make the case with this number, read it, and restore the samples."""
        rng = random.Random(f"{self.seed}/{number}")
        kind = self.kinds[number % len(self.kinds)]
        self.done[kind] += 1
        if kind == REQUESTS:
            address = readers.request(rng)
            self._read(number, kind, lambda: readers.ask(address), address.encode())
        elif kind == OPTIONS:
            given = readers.options(rng)
            said = "\n".join(given).encode(errors="surrogateescape")
            self._read(number, kind, lambda: readers.set_over(self.known["scenario"], given), said)
        else:
            self._file(number, kind, rng)

    def _file(self, number: int, kind: str, rng: random.Random) -> None:
        path = self.known[kind]
        before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
        path.unlink()
        if rng.random() < ODD:
            odd = rng.choice(list(changes.ODDITIES))
            changes.ODDITIES[odd](path)
            shown = odd.encode()
        else:
            shown = changes.changed(rng, self.content[kind])
            path.write_bytes(shown)
        self._read(number, kind, lambda: readers.READERS[kind](path), shown)
        for left in set(path.parent.iterdir()) - {
            p for p in path.parent.iterdir() if p.name == "__cluster_metadata-0"
        }:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        for file, content in before.items():
            file.write_bytes(content)

    def _read(self, number: int, kind: str, read: Callable[[], None], shown: bytes) -> None:
        self.hanging = False
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            read()
        except BaseException as wrong:
            if not self.hanging and isinstance(wrong, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(wrong.__traceback__)[-1]
            self.tracebacks.append(
                f"{number} {kind}: {type(wrong).__name__}: {str(wrong)[:300]} ({last.filename}:{last.lineno})"
            )
            self._kept(number, kind, shown, traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if (peak := peak_memory()) > self.peak + GROWTH:
            self.peak = peak
            self.growth.append(f"{number} {kind}: {peak >> 20} MiB")
            self._kept(number, kind, shown, self.growth[-1])
        if self.hanging:
            self.hangs.append(f"{number} {kind}")
            self._kept(number, kind, shown, "it took too long")

    def hang(self, number: int, frame: FrameType | None) -> None:
        self.hanging = True
        raise Hang

    def _kept(self, number: int, kind: str, shown: bytes, why: str) -> None:
        if self.keep is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            name = f"{number:06}-{kind.replace(' ', '-')}"
            (self.keep / name).write_bytes(shown)
            (self.keep / f"{name}.why").write_text(why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="highwater-fuzzing-") as folder:
        fuzzer = Fuzzer(Path(folder), given.seed, given.keep)
        signal.signal(signal.SIGPROF, fuzzer.hang)
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
        before = peak_memory()
        for number in range(given.first, given.first + given.count):
            if number % 100 == 0:
                print(f"{number} of {given.count}, {len(fuzzer.tracebacks)} wrong", flush=True)
            fuzzer.one(number)
    found = {
        "seed": given.seed,
        "count": sum(fuzzer.done.values()),
        "kinds": dict(fuzzer.done),
        "tracebacks": fuzzer.tracebacks,
        "hangs": fuzzer.hangs,
        "growth": fuzzer.growth,
        "peak_bytes_before": before,
        "peak_bytes": peak_memory(),
    }
    print(json.dumps(found))
    sys.exit(bool(fuzzer.tracebacks or fuzzer.hangs))


if __name__ == "__main__":
    main()
