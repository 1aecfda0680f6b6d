"""TLC on the published specification of Kafka's truncation rules, where the machine has both."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from highwater.checker.bench.whole import Whole, run_whole

JAR, SPECIFICATION = "HIGHWATER_TLC", "HIGHWATER_KAFKA_SPECIFICATION"
"""Environment variables: the jar of TLC, and the folder of hachikuji/kafka-specification."""

_CONFIGURATION = """CONSTANTS
  Replicas = {r1, r2, r3}
  LogSize = 2
  MaxRecords = 2
  MaxLeaderEpoch = 2
SPECIFICATION Spec
INVARIANT StrongIsr
CHECK_DEADLOCK FALSE
"""


def absent() -> str | None:
    """What TLC lacks here, in a few words; None where it can run."""
    if shutil.which("java") is None:
        return "not measured: Java is not installed"
    for variable, file in ((JAR, ""), (SPECIFICATION, "Kip320.tla")):
        value = os.environ.get(variable)
        if value is None:
            return f"not measured: {variable} is not set"
        if not (Path(value) / file).is_file():
            return f"not measured: {variable} does not lead to {file or 'a jar'}"
    return None


def run_kip_320() -> tuple[Whole, int]:
    """Kip320 with 3 replicas and 2/2/2 on all cores; the run, and the distinct states that TLC counted."""
    with tempfile.TemporaryDirectory(prefix="highwater-tlc-") as name:
        place = Path(name)
        for module in Path(os.environ[SPECIFICATION]).glob("*.tla"):
            shutil.copy(module, place)
        (place / "Kip320.cfg").write_text(_CONFIGURATION, encoding="utf-8")
        run = run_whole(
            [
                *("java", "-XX:+UseParallelGC", "-cp", Path(os.environ[JAR]).resolve(), "tlc2.TLC"),
                *("-workers", str(len(os.sched_getaffinity(0))), "-metadir", place / "states"),
                *("-config", "Kip320.cfg", "Kip320.tla"),
            ],
            directory=place,
        )
    counted = re.search(r"([\d,]+) distinct states found, 0 states left on queue", run.said)
    if counted is None:
        raise RuntimeError(f"TLC did not end its search:\n{run.said}")
    return run, int(counted[1].replace(",", ""))


__all__ = ["JAR", "SPECIFICATION", "absent", "run_kip_320"]
