"""The page docs/benchmarks.md: its head, its parts, and the machine that they were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`; `python -m docs.bench --only PART` measures a part. Some parts are measured only
so: `development`, which installs packages and runs all tests, `examples`, which needs TLC and a checkout of
tlaplus/Examples, and `spark-search`, which stands in [spark.md](spark.md#measured). Unless its part says otherwise
every figure is of a whole process started afresh: its wall time, the peak of its own memory, and what its result
says of the search. Runs are repeated; given are the median, and the least and the most. No test is decided by a
figure.
"""


def machine() -> str:
    """The machine's size in a sentence."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or "unknown processor",
    )
    total = next((int(x.split()[1]) for x in _lines("/proc/meminfo") if x.startswith("MemTotal")), 0)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, {total / (1 << 20):.0f} GiB of memory, Python {platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def with_section(text: str, heading: str, section: str) -> str:
    """The page with one of its parts in another version; at the end where it has none yet."""
    before, found, after = text.partition(f"\n{heading}\n")
    rest = after[after.index("\n## ") :] if found and "\n## " in after else "\n"
    return f"{before.rstrip()}\n\n{section.rstrip()}\n{rest}".rstrip() + "\n"


def write_section(heading: str, section: str, page: Path = PAGE) -> None:
    """Put a part that was measured into docs/benchmarks.md, or into another page."""
    if page != PAGE:
        page.write_text(with_section(page.read_text(encoding="utf-8"), heading, section), encoding="utf-8")
        return
    _, first, parts = PAGE.read_text(encoding="utf-8").partition("\n## ")
    text = f"{HEAD}{first}{parts}"
    PAGE.write_text(with_section(text, heading, section), encoding="utf-8")
