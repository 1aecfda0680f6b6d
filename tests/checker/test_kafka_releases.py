"""``--kafka VERSION``: how a release comes into the cache, and each failure's sentence. A script replaces Maven."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.conform import releases
from highwater.checker.conform.bridge import Jars
from highwater.checker.engines import cache

MAVEN = """#!/usr/bin/env python3
import os, pathlib, sys, time
place = pathlib.Path(os.environ["FAKE"])
with open(place / "runs", "a") as runs:
    runs.write(os.getcwd() + "\\n")
pom = pathlib.Path("pom.xml").read_text()
(place / "pom").write_text(pom)
print("[INFO] Downloading from mirror: somewhere/kafka-metadata-4.2.1.jar", flush=True)
time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
libs = pathlib.Path("libs")
libs.mkdir(exist_ok=True)
(libs / "kafka-metadata-4.2.1.jar").write_text("a jar")
if os.environ.get("FAKE_LOG4J"):
    (libs / ("log4j-core-" + os.environ["FAKE_LOG4J"] + ".jar")).write_text("another")
if "log4j-slf4j-impl" in pom:
    (libs / "log4j-slf4j-impl.jar").write_text("the logger")
print(os.environ.get("FAKE_SAYS", ""))
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""
FETCH = (
    "import sys; from highwater.checker.conform import releases;"
    "releases.release('4.2.1', lambda line: print(line, flush=True))"
)


@pytest.fixture(autouse=True)
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in for Maven on the path, with a new cache beside it."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return program


def runs(tmp_path: Path) -> int:
    """How often Maven was run."""
    return len((tmp_path / "runs").read_text().splitlines())


def kept(tmp_path: Path) -> list[str]:
    """What lies in the cache of releases, without locks."""
    return sorted(p.name for p in (tmp_path / "cache" / "kafka").iterdir() if p.suffix != ".lock")


@pytest.mark.parametrize("name", ["4.2.1", "4.0", "4.3.0-rc1", "10.0.12"])
def test_a_version_has_digits_and_dots(name: str) -> None:
    assert releases.is_version(name)


@pytest.mark.parametrize(
    "name",
    ["4", "kafka-4.2.1", "4.2.1/", "./4.2.1", "4.2.x", "4.2.1-rc", "4.2.1\n", "٤.2.1", "4.2.1;id", "../4.2"],
)
def test_everything_else_is_a_path(name: str) -> None:
    assert not releases.is_version(name)
    with pytest.raises(InputError, match="no such directory"):
        Jars.found(name)


@pytest.mark.parametrize(("brought", "logger"), [("2.25.4", "2.25.4"), ("", "2.24.3")])
def test_a_release_is_fetched_once_with_a_logger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brought: str, logger: str
) -> None:
    """The logger has the version of the Log4j that Kafka brings, else a version that is known to work."""
    monkeypatch.setenv("FAKE_LOG4J", brought)
    shown: list[str] = []
    place = releases.release("4.2.1", shown.append)
    assert place == tmp_path / "cache" / "kafka" / "4.2.1"
    assert {"kafka-metadata-4.2.1.jar", "log4j-slf4j-impl.jar"} <= {
        p.name for p in (place / "libs").iterdir()
    }
    assert "Kafka 4.2.1: Maven fetches kafka-metadata-4.2.1.jar" in shown
    assert (
        f"<artifactId>log4j-slf4j-impl</artifactId><version>{logger}</version>"
        in (tmp_path / "pom").read_text()
    )
    count = runs(tmp_path)
    assert releases.release("4.2.1") == place
    assert runs(tmp_path) == count
    assert kept(tmp_path) == ["4.2.1"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "Could not find artifact org.apache.kafka:kafka_2.13:jar:4.2.1 in x",
            "have no Kafka of this version",
        ),
        ("Cannot access x in offline mode and the artifact y", "Maven is in offline mode"),
        (
            "Could not transfer artifact a:b from/to c: Connection refused",
            "Maven cannot reach its repositories",
        ),
        (
            "Plugin x or one of its dependencies could not be resolved: Connect to 1 failed",
            "cannot reach its",
        ),
        ("Could not transfer artifact a: Checksum validation failed, expected 1", "Maven got a damaged file"),
        ("Error copying artifact from a to b: No space left on device", "no space is left; .* need 60 MB"),
        (
            "JAVA_HOME is not defined correctly",
            "Maven failed: JAVA_HOME is not defined correctly; see if `mvn",
        ),
    ],
)
def test_a_failure_of_maven_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, sentence: str
) -> None:
    monkeypatch.setenv("FAKE_STATUS", "1")
    monkeypatch.setenv(
        "FAKE_SAYS", f"[ERROR] {said}\n[ERROR] \n[ERROR] For more information, read the articles"
    )
    with pytest.raises(
        InputError, match=f"^--kafka 4.2.1: .*{sentence}.*, or name an unpacked release"
    ) as caught:
        releases.release("4.2.1")
    assert "\n" not in str(caught.value)
    assert kept(tmp_path) == []
    monkeypatch.delenv("FAKE_STATUS")
    assert releases.release("4.2.1").is_dir()


def test_without_maven_and_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maven: Path
) -> None:
    maven.unlink()
    monkeypatch.setenv("PATH", str(maven.parent))
    with pytest.raises(InputError, match="there is no mvn on the path; install Maven, or name an unpacked"):
        releases.release("4.2.1")
    monkeypatch.setenv(cache.VARIABLE, cache.OFF)
    with pytest.raises(InputError, match="there is no cache to keep it in; set HIGHWATER_CACHE"):
        releases.release("4.2.1")
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(
        InputError, match=r"file: File exists; set HIGHWATER_CACHE to a directory that can be written"
    ):
        releases.release("4.2.1")


def test_a_jar_that_changed_later_is_refused(tmp_path: Path) -> None:
    place = releases.release("4.2.1")
    jar = place / "libs" / "kafka-metadata-4.2.1.jar"
    for change in (lambda: jar.write_text("b jar"), lambda: jar.write_text("a longer jar"), jar.unlink):
        change()
        with pytest.raises(
            InputError, match=f"{jar} is not the file that was fetched; remove {place}, or name"
        ):
            releases.release("4.2.1")
    jar.write_text("a jar")
    assert releases.release("4.2.1") == place
    (place / "libs" / "other.jar").touch()
    with pytest.raises(InputError, match=r"other\.jar is not the file that was fetched"):
        releases.release("4.2.1")
    for listed in ("{", json.dumps({"a": 1}), '"\udcff"'):
        (place / "jars.json").write_bytes(listed.encode(errors="surrogateescape"))
        with pytest.raises(InputError, match=r"jars\.json is damaged; remove"):
            releases.release("4.2.1")


def test_a_release_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    releases.release("4.2.1").chmod(0o777)
    with pytest.raises(InputError, match=r"other users can write to .*4\.2\.1; remove it"):
        releases.release("4.2.1")


def test_two_processes_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "0.5")
    with ThreadPoolExecutor(3) as pool:
        done = pool.map(
            lambda _: subprocess.run([sys.executable, "-c", FETCH], capture_output=True, check=True), range(3)
        )
        shown = b"".join(one.stdout for one in done).decode()
    assert runs(tmp_path) == 2  # of one process: Kafka, then the logger
    assert "Kafka 4.2.1: another process fetches it" in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_fetch_leaves_no_release_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "3600")
    with subprocess.Popen(
        [sys.executable, "-c", FETCH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        while "kafka-metadata" not in running.stdout.readline():
            pass
        folder = (tmp_path / "runs").read_text().strip()
        running.send_signal(number)
        running.communicate()
    while _in(folder):  # the kernel ends Maven a moment later
        time.sleep(0.01)
    assert number == signal.SIGKILL or kept(tmp_path) == []
    monkeypatch.delenv("FAKE_SECONDS")
    releases.release("4.2.1")
    assert kept(tmp_path) == ["4.2.1"]


def _in(folder: str) -> bool:
    """True if a process runs in the folder."""
    for process in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(process).startswith(folder):
                return True
        except OSError:
            continue
    return False
