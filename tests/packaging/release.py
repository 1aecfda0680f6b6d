"""Build the wheel and the sdist reproducibly: the same bytes at any place and time.

    python -m tests.packaging.release --out dist

All times in them are SOURCE_DATE_EPOCH, by default the last commit's. The sources are copied with fixed
modes, and setuptools's archive is repacked in order. Another Python or zlib may compress the same content to
other bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("highwater", "model", "invariants", "checker", "traces")
FILES = ("pyproject.toml", "README.md", "LICENSE")
VARIABLE = "SOURCE_DATE_EPOCH"
_OLDEST = 315_532_800
"""1980-01-01: zip archives have no earlier times."""


def source_date(root: Path = ROOT) -> int:
    """The sources' time, in seconds since 1970. Raises ValueError if archives cannot hold it."""
    said = os.environ.get(VARIABLE)
    if said is None:
        command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not (said.isdecimal() and int(said) >= _OLDEST):
        raise ValueError(f"{VARIABLE}: {said!r} is no number of seconds from 1980 on")
    return int(said)


def build(root: Path, out: Path, date: int) -> list[Path]:
    """Build the wheel and the sdist of a tree into an existing directory."""
    with tempfile.TemporaryDirectory(prefix="highwater-release-") as folder:
        tree = Path(folder) / "tree"
        copy_sources(root, tree)
        sdist = built("sdist", tree, Path(folder), date)
        packed = out / sdist.name
        packed.write_bytes(normalised(sdist.read_bytes(), date))
        # The wheel is built from the sdist's content, as a user of the sdist would build it.
        with tarfile.open(packed) as archive:
            if hasattr(tarfile, "data_filter"):  # missing in Debian's Python 3.11.2
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder)
        wheel = built("wheel", Path(folder) / sdist.name.removesuffix(".tar.gz"), Path(folder), date)
        return [packed, Path(shutil.copy(wheel, out))]


def copy_sources(root: Path, tree: Path) -> None:
    """Copy the sources, links kept as links, without caches."""
    left = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in FOLDERS:
        shutil.copytree(root / name, tree / name, symlinks=True, ignore=left)
    for name in FILES:
        shutil.copy(root / name, tree)
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def built(kind: str, tree: Path, target: Path, date: int) -> Path:
    program = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    environment = {**os.environ, VARIABLE: str(date), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.umask(0o22); {program}", str(target)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"setuptools builds no {kind}: {done.stderr.strip()[-2000:]}")
    return target / done.stdout.splitlines()[-1]


def normalised(sdist: bytes, date: int) -> bytes:
    """An sdist with its members sorted, at one time and without owner."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as before,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=date) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = date, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() else 0o644, {}
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for path in build(ROOT, given.out, source_date()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
