"""Release builds are reproducible, and the bill of materials is complete."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.packaging import bom, release
from tests.packaging.conftest import DATE
from tests.packaging.release import ROOT
from tests.packaging.test_wheel import content
from tests.slow import slow


@slow("builds both distributions twice, from two copies of the tree")
def test_two_builds_have_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """The second tree has another time, place, creation order and umask. The wheel is built from the sdist."""
    other = tmp_path / "elsewhere" / "a tree"
    before = os.umask(0o77)
    try:
        for name in reversed(release.FOLDERS):
            shutil.copytree(
                ROOT / name, other / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in release.FILES:
            shutil.copyfile(ROOT / name, other / name)
        for path in other.rglob("*.py"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        found = []
        for number, tree in enumerate((ROOT, other)):
            out = tmp_path / str(number)
            out.mkdir()
            found.append({path.name: path.read_bytes() for path in release.build(tree, out, DATE)})
            os.umask(0o22)
    finally:
        os.umask(before)
    assert found[0] == found[1]
    (sdist,) = (tmp_path / "0").glob("*.tar.gz")
    (released,) = (tmp_path / "0").glob("*.whl")
    assert content(released) == content(wheel)
    with tarfile.open(sdist) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname) for m in archive.getmembers()} == {(DATE, 0, 0, "")}
    with zipfile.ZipFile(released) as packed:
        assert len({info.date_time for info in packed.infolist()}) == 1


def packed(names: list[str], when: int, who: str) -> bytes:
    path = Path("made.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.mtime, member.uname, member.uid, member.mode = when, who, when % 1000, 0o600
            archive.addfile(member)
    return path.read_bytes()


def test_a_source_distribution_is_packed_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = packed(["b", "a"], 1_700_000_001, "x"), packed(["a", "b"], 1_700_000_777, "y")
    assert one != two
    found = release.normalised(one, DATE)
    assert found == release.normalised(two, DATE) != release.normalised(two, DATE + 1)
    assert int.from_bytes(found[4:8], "little") == DATE
    (tmp_path / "found.tar").write_bytes(gzip.decompress(found))
    with tarfile.open(tmp_path / "found.tar") as archive:
        assert [(m.name, m.mtime, m.uid, m.uname, m.mode) for m in archive.getmembers()] == [
            ("a", DATE, 0, "", 0o644),
            ("b", DATE, 0, "", 0o644),
        ]


def test_the_time_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(release.VARIABLE, str(DATE))
    assert release.source_date() == DATE
    for wrong in ("", "-1", "0", "now"):
        monkeypatch.setenv(release.VARIABLE, wrong)
        with pytest.raises(ValueError, match="is no number of seconds"):
            release.source_date()


# --- bill of materials ------------------------------------------------------------------------------------

TEXT = bom.CONSTRAINTS.read_text()
all_installed = pytest.mark.skipif(
    bool(bom.missing(TEXT)),
    reason=f"not installed: {', '.join(bom.missing(TEXT))}; `make setup` installs all",
)


@all_installed
def test_every_pin_is_a_component_and_nothing_else() -> None:
    found = bom.bill(TEXT, DATE)
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["serialNumber"])
    assert found["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"
    said = {f"{c['name']}=={c['version']}" for c in found["components"]}
    assert said == {line for line in TEXT.splitlines() if line and not line.startswith("#")}
    references = [c["bom-ref"] for c in found["components"]]
    assert len(set(references)) == len(references) == len(said)
    known = {*references, found["metadata"]["component"]["bom-ref"]}
    assert {d["ref"] for d in found["dependencies"]} == known
    assert {on for d in found["dependencies"] for on in d["dependsOn"]} <= known
    for component in found["components"]:
        assert component["purl"] == f"pkg:pypi/{canonicalize_name(component['name'])}@{component['version']}"
        assert component["licenses"], component
    assert "://" not in json.dumps(found), "no registry's address, and no other one"

    scopes = {c["name"].lower(): c["scope"] for c in found["components"]}
    for name, scope in {
        "click": "required", "llvmlite": "required", "markupsafe": "required", "msgspec": "required",
        "pyspark": "optional", "py4j": "optional", "networkx": "optional", "python-dateutil": "optional",
        "pytest": "excluded", "mypy": "excluded", "setuptools": "excluded",
        "pygments": "excluded",
    }.items():  # fmt: skip
        assert (name, scopes[name]) == (name, scope)

    assert bom.bill(TEXT, DATE) == found
    assert bom.bill(TEXT.replace("click==", "click==9"), DATE)["serialNumber"] != found["serialNumber"]
    with pytest.raises(ValueError, match="not a pin: click>=8"):
        bom.bill("click>=8\n", DATE)


def test_a_missing_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bill without the package's dependencies would be wrong for users of that extra."""
    installed, out = bom._installed, tmp_path / "bill.json"
    monkeypatch.setattr(bom, "_installed", lambda name: None if name == "pyspark" else installed(name))
    monkeypatch.setattr("sys.argv", ["bom", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        bom.main()
    assert ended.value.code == 2
    assert "pyspark" in capsys.readouterr().err.splitlines()[-1]
    assert not out.exists()
