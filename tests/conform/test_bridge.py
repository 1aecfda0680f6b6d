"""The bridge to Kafka's control managers refuses bad input, and reverts each operation that it tries."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.conform.bridge import Bridge, Jars, Jdk, compiled

SCENARIO = {"brokers": 3, "minIsr": 2, "unclean": False, "elr": 1, "partitions": [[0, 1, 2]]}
OPERATIONS: list[dict[str, Any]] = [
    *({"name": "fenceStaleBroker", "broker": b, "over": True} for b in range(3)),
    *({"name": "brokerHeartbeat", "broker": b, "wantShutDown": w} for b in range(3) for w in (False, True)),
    *({"name": "registerBroker", "broker": b, "clean": c} for b in range(3) for c in (False, True)),
    *({"name": "alterPartition", "newIsr": isr} for isr in ([], [0], [0, 1], [1, 2], [0, 1, 2], [1, 1])),
    {"name": "alterPartitionReassignments", "replicas": [2, 0]},
    {"name": "alterPartitionReassignments", "replicas": None},
    {"name": "registerBroker", "broker": 1, "written": [0], "environment": True},
    {"name": "loseDirectory", "broker": 1, "environment": True},
    {"name": "assignDirectory", "broker": 2, "environment": True},
    {"name": "unregisterBroker", "broker": 2},
    {"name": "changeMinIsr", "value": 2},
    {"name": "updateFeatures"},
    {"name": "electLeaders", "type": "UNCLEAN"},
    {"name": "maybeBalancePartitionLeaders"},
    {"name": "maybeElectUncleanLeaders"},
]


def test_an_operation_after_reverted_ones_comes_to_what_a_fresh_controller_comes_to(bridge: Bridge) -> None:
    """Each operation is tried among all others, and then alone on a fresh controller."""
    bridge.ask({"scenario": SCENARIO, "operations": OPERATIONS})
    for path in ([], [0], [3 + 1, 3 + 3], [12, 1, 9, 5], [21, 0, 9], [25, 1], [26, 0]):
        answer = bridge.ask({"try": [path]})
        tried = answer["answers"][1:]
        for number, operation in enumerate(OPERATIONS):
            explained = bridge.ask(
                {"explain": {"scenario": SCENARIO, "path": [OPERATIONS[n] for n in path], "op": operation}}
            )
            error, seen = tried[2 * number : 2 * number + 2]
            said = explained["error"] + 1000 * explained["answer"]
            after = dict(zip(answer["fields"], answer["seen"][seen], strict=True))
            assert (error, after) == (said, explained["after"]), (path, operation)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"nothing": 1}, "a line that says nothing known"),
        (
            {"explain": {"scenario": SCENARIO, "path": [], "op": {"name": "unheard"}}},
            'no operation "unheard"',
        ),
        (
            {"explain": {"scenario": SCENARIO, "path": [], "op": {"name": "alterPartition"}}},
            "NullPointerException",
        ),
    ],
)
def test_an_error_of_the_bridge_is_never_an_answer(bridge: Bridge, question: Any, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        bridge.ask(question)


def test_a_directory_without_a_controller_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no jar with Kafka's controller"):
        Jars.found(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        Jars.found(tmp_path / "none")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-metadata-9.jar").write_bytes(b"no jar")
    with pytest.raises(InputError, match="no jar that can be read"):
        Jars.found(tmp_path)


MODULES = {
    "group-coordinator-api": "group-coordinator/group-coordinator-api", "storage-api": "storage/api",
    "tools-api": "tools/tools-api",
}  # fmt: skip
"""The folders of modules that are not named as their jars."""


def test_a_built_checkout_is_found_with_its_own_jars_first(kafka: Path, tmp_path: Path) -> None:
    """The layout after ``./gradlew jar copyDependantLibs``: all modules but the clients also have a copy."""
    copies = tmp_path / "core" / "build" / "dependant-libs-2.13.17"
    copies.mkdir(parents=True)
    for jar in (kafka / "libs").glob("*.jar"):
        named = re.fullmatch(r"kafka(?:_2\.13|-(.+?))-\d.*\.jar", jar.name)
        if named:
            module = named[1] or "core"
            libs = tmp_path / MODULES.get(module, module) / "build" / "libs"
            libs.mkdir(parents=True)
            (libs / jar.name).symlink_to(jar)
            (libs / f"{jar.stem}-test.jar").touch()
        if not named or named[1] not in (None, "clients"):
            (copies / jar.name).symlink_to(jar)
    found = Jars.found(tmp_path)
    both = [str(jar.relative_to(tmp_path)) for jar in found.jars if jar.name.startswith("kafka-metadata")]
    assert [place.split("/")[0] for place in both] == ["metadata", "core"]
    with Bridge(found) as bridge, Bridge(Jars.found(kafka)) as other:
        assert (bridge.version, bridge.fields) == (other.version, other.fields)


def test_a_kafka_without_what_the_bridge_calls_is_named(kafka: Path, tmp_path: Path) -> None:
    """If a class is missing in a release, the error names the class in one line."""
    (tmp_path / "libs").mkdir()
    for jar in (kafka / "libs").glob("*.jar"):
        (tmp_path / "libs" / jar.name).symlink_to(jar)
    jar = next((tmp_path / "libs").glob("kafka-metadata-*.jar"))
    original = jar.resolve()
    jar.unlink()
    with ZipFile(original) as whole, ZipFile(jar, "w") as part:
        for name in whole.namelist():
            if "FeatureControlManager" not in name:
                part.writestr(name, whole.read(name))
    wanted = "this Kafka has no class FeatureControlManager .*; Versions.java needs an alternative for Bridge"
    with pytest.raises(InputError, match=wanted):
        compiled(Jars.found(tmp_path), Jdk.found())


def test_without_a_jdk_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match="conform needs a JDK 17 or later, and there is no java on the path"):
        Jdk.found()
    javac = tmp_path / "javac"
    javac.write_text("#!/bin/sh\necho javac 11.0.2\n")
    javac.chmod(0o755)
    os.symlink(javac, tmp_path / "java")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(InputError, match=r"is 11"):
        Jdk.found()
