from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_an_implementation_can_be_driven_without_hypothesis() -> None:
    absent = "sys.modules['hypothesis'] = None; sys.modules['pytest'] = None"
    program = f"import sys; {absent}; import highwater.checker.testing.conformance"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True
    )
    assert ended.returncode == 0, ended.stderr
