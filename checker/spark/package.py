"""The project's own packages as one archive that Spark gives to the executors."""

from __future__ import annotations

import zipfile
from pathlib import Path

import checker

PACKAGES = ("model", "invariants", "checker", "traces")
ROOT = Path(checker.__file__).resolve().parent.parent


def package(directory: Path) -> Path:
    """Write ``highwater.zip`` into a directory; Python imports from it as it stands."""
    path = directory / "highwater.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in PACKAGES:
            for file in sorted((ROOT / name).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT).as_posix())
    return path
