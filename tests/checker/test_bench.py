"""What the benchmarks measure of a process is that process's own."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.bench.figures import measure
from tests.checker.conftest import COUNTER

MIB = 1 << 20


def test_the_peak_of_memory_is_the_process_s_own(counter: Callable[..., Path]) -> None:
    """Neither that of the process that starts it, which holds more, nor less than what it takes itself."""
    ours = b"x" * (600 * MIB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > len(ours)
    small = ["check", str(counter(name="plain.toml"))]
    measure(small)  # compiling takes memory, too: from here on the machine code is kept
    plain = measure(small).peak
    larger = counter(name="larger.toml", protocol=f"{COUNTER}\nHELD = b'x' * {150 * MIB}\n")
    taken = measure(["check", str(larger)]).peak - plain
    assert plain < 300 * MIB
    assert 140 * MIB < taken < 180 * MIB
    asked = ["prove", str(counter()), "--depth", "3", "--memory", "0.5"]
    (result,) = measure(asked).results
    assert result["stopped_by"] == "depth"
    assert 10 * MIB < result["peak_memory_bytes"] < len(ours)


def test_a_process_that_ends_otherwise_is_refused(counter: Callable[..., Path]) -> None:
    broken = counter("[parameters]\ntop = 7\n")
    with pytest.raises(RuntimeError, match="ended with status 1"):
        measure(["check", str(broken)])
    (result,) = measure(["check", str(broken)], status=1).results
    assert result["verdict"] == "violated"
