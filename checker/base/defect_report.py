"""What is written where the checker contradicts itself: a file that says enough for somebody else to look for it."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from highwater.checker.base.durable.aside import aside


def report_of(wrong: BaseException) -> dict[str, Any]:
    """The report of an error, as plain values: what was asked, by which versions, and where it went wrong."""
    from highwater.model.versions import versions

    return {
        "error": f"{type(wrong).__name__}: {wrong}",
        "command": sys.argv[1:],
        "versions": versions("internal-error"),
        "platform": platform.platform(),
        "traceback": traceback.format_exception(wrong),
        **getattr(wrong, "facts", {}),
    }


def write(wrong: BaseException) -> str | None:
    """Write the report of an error where temporary files go, and give its name; None where it cannot be written."""
    name = f"highwater-report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json"
    try:
        path = Path(tempfile.gettempdir()) / name
        with aside(path) as beside:
            beside.write_text(json.dumps(report_of(wrong), indent=1, default=str) + "\n", encoding="utf-8")
    except Exception:  # whatever was wrong may be wrong here, too: the line that tells of it is worth more
        return None
    return str(path)
