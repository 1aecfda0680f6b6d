"""TLC on published specifications, where the machine has both."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from docs.bench.whole import Whole, run_whole

JAR, SPECIFICATION = "HIGHWATER_TLC", "HIGHWATER_KAFKA_SPECIFICATION"
"""Environment variables: the jar of TLC, and the folder of hachikuji/kafka-specification."""
EXAMPLES = "HIGHWATER_TLA_EXAMPLES"
"""Another one: the folder of a checkout of tlaplus/Examples."""

SEARCH = ("Computing initial states", "Model checking completed")
"""What TLC says when its search begins, and when it has ended."""

_CONFIGURATION = """CONSTANTS
  Replicas = {r1, r2, r3}
  LogSize = 2
  MaxRecords = 2
  MaxLeaderEpoch = 2
SPECIFICATION Spec
INVARIANT StrongIsr
CHECK_DEADLOCK FALSE
"""


def absent(variable: str = SPECIFICATION, file: str = "Kip320.tla") -> str | None:
    """What TLC lacks here, in a few words, to run on a file that a variable leads to; None where it can run."""
    if shutil.which("java") is None:
        return "not measured: Java is not installed"
    for name, wanted in ((JAR, ""), (variable, file)):
        value = os.environ.get(name)
        if value is None:
            return f"not measured: {name} is not set"
        if not (Path(value) / wanted).is_file():
            return f"not measured: {name} does not lead to {wanted or 'a jar'}"
    return None


def run_kip_320() -> tuple[Whole, int]:
    """Kip320 with 3 replicas and 2/2/2 on all cores; the run, and the distinct states that TLC counted."""
    modules = Path(os.environ[SPECIFICATION]).glob("*.tla")
    return run_tlc("Kip320", _CONFIGURATION, modules, len(os.sched_getaffinity(0)))


def run_tlc(
    module: str,
    configuration: str,
    modules: Iterable[Path],
    workers: int,
    texts: Mapping[str, str] | None = None,
) -> tuple[Whole, int]:
    """A module with its configuration; the run, which has marked SEARCH, and the distinct states that TLC counted.

    ``modules`` are copied beside it; ``texts`` are modules given by their names. RuntimeError where it finds an
    error, or does not end its search.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-tlc-") as name:
        place = Path(name)
        for path in modules:
            shutil.copy(path, place)
        for own, text in {**(texts or {}), f"{module}.cfg": configuration}.items():
            (place / own).write_text(text, encoding="utf-8")
        run = run_whole(
            [
                *("java", "-XX:+UseParallelGC", "-cp", Path(os.environ[JAR]).resolve(), "tlc2.TLC"),
                *("-workers", str(workers), "-metadir", place / "states"),
                *("-config", f"{module}.cfg", f"{module}.tla"),
            ],
            directory=place,
            marks=SEARCH,
        )
    counted = re.search(r"([\d,]+) distinct states found, 0 states left on queue", run.said)
    if counted is None:
        raise RuntimeError(f"TLC did not end its search:\n{run.said}")
    return run, int(counted[1].replace(",", ""))
