"""Kafka releases by version number: the user's Maven fetches the jars once, and the cache keeps them.

A release is the directory ``kafka/VERSION`` of the cache, in the layout of an unpacked release (``libs/*.jar``). Its
file ``jars.json`` has the size and the SHA-256 digest of each jar. Jars are program code, so each use checks both. A
release is fetched into a directory of another name and renamed at the end, so no process ever sees a part of it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

import msgspec

from highwater.checker.base.problems import InputError
from highwater.checker.engines import cache

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}(-rc[0-9]{1,3})?")
_LISTED = "jars.json"
_LOG4J = "2.24.3"
"""The version of Log4j for a release that brings none."""
_POM = Template("""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>highwater</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
    </plugins>
  </build>
  <dependencies>
$dependencies
  </dependencies>
</project>
""")
_DEPENDENCY = Template(
    "    <dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
)
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"

Show = Callable[[str], object]
"""Shows a line of progress."""


def is_version(name: str) -> bool:
    """True for a version number such as ``4.2.1`` or ``4.3.0-rc1``. Any other name is a path."""
    return _VERSION.fullmatch(name) is not None


def release(version: str, show: Show = lambda line: None) -> Path:
    """The directory of a release, from the cache or fetched by Maven.

    Raises InputError if Maven cannot fetch the release, the cache cannot keep it, or a jar has changed since it was
    fetched.
    """
    assert is_version(version)
    kept = cache.directory()
    if kept is None:
        raise _refused(version, "there is no cache to keep it in; set HIGHWATER_CACHE to a directory")
    place = kept / "kafka" / version
    try:
        if not place.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.mkdir(mode=0o700, exist_ok=True)
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with _alone(place, lambda: show(f"Kafka {version}: another process fetches it")):
                if not place.is_dir():
                    _fetch(version, place, show)
        for folder in (kept, place.parent, place):
            if not cache.is_ours(folder.stat()):
                raise _refused(version, f"other users can write to {folder}; remove it")
        _check(version, place)
    except OSError as wrong:
        if wrong.errno == errno.ENOSPC:
            raise _refused(version, _no_space(place)) from None
        what = f"{wrong.filename or place}: {wrong.strerror}"
        raise _refused(version, f"{what}; set HIGHWATER_CACHE to a directory that can be written") from None
    return place


def _refused(version: str, why: str) -> InputError:
    return InputError(f"--kafka {version}: {why}, or name an unpacked release: --kafka DIRECTORY")


def _no_space(place: Path) -> str:
    return f"no space is left; {place.parent} and Maven's own repository need 60 MB each; free some space"


@contextmanager
def _alone(place: Path, wait: Callable[[], object]) -> Iterator[None]:
    """While inside, no other process fetches this release. ``wait`` is called again and again until then."""
    with open(place.with_name(f".{place.name}.lock"), "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                wait()
                time.sleep(0.2)
        yield


def _fetch(version: str, place: Path, show: Show) -> None:
    """Fetch a release into ``place``, all of it or nothing. Raises InputError and OSError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise _refused(version, "the cache does not have it, and there is no mvn on the path; install Maven")
    for left in place.parent.glob(f".{version}.*.new"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{version}.", suffix=".new", dir=place.parent))
    try:
        show(f"Kafka {version}: Maven fetches it")
        (folder / ".mvn").mkdir()  # Maven looks for its settings no further up
        kafka = [("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools")]
        _copy_jars(version, maven, folder, kafka, show)
        # Kafka's distribution brings this logger; its artifacts do not, and without it brokers write no log.
        brought = [re.fullmatch(r"log4j-core-([\w.]+)\.jar", jar.name) for jar in (folder / "libs").iterdir()]
        log4j = next((found[1] for found in brought if found), _LOG4J)
        logger = ("org.apache.logging.log4j", "log4j-slf4j-impl", log4j)
        _copy_jars(version, maven, folder, [*kafka, logger], show)
        whole = folder / version
        whole.mkdir(mode=0o700)
        (folder / "libs").rename(whole / "libs")
        listed = {jar.name: [jar.stat().st_size, _digest(jar)] for jar in sorted((whole / "libs").iterdir())}
        (whole / _LISTED).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
        whole.rename(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_jars(
    version: str, maven: str, folder: Path, artifacts: list[tuple[str, str, str]], show: Show
) -> None:
    """Copy the artifacts and all that they need to ``folder / "libs"``. Raises InputError if Maven fails."""
    lines = (_DEPENDENCY.substitute(group=g, name=n, version=v) for g, n, v in artifacts)
    (folder / "pom.xml").write_text(_POM.substitute(dependencies="\n".join(lines)), encoding="utf-8")
    command = [maven, "-B", "-C", "-U", "-Dstyle.color=never", "-DoutputDirectory=libs", _COPY]
    environment = {**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS") or "-Xmx512m"}
    wrong = list[str]()
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=_end_with_the_parent,
    ) as running:
        try:
            assert running.stdout
            for line in running.stdout:
                if line.startswith("[ERROR]"):
                    wrong.append(line.removeprefix("[ERROR]").strip())
                elif (file := _file_of(line)) is not None:
                    show(f"Kafka {version}: Maven fetches {file}")
            status = running.wait()
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    if status:
        raise _refused(version, _why("\n".join(wrong), status, folder))


def _file_of(line: str) -> str | None:
    """The file that Maven downloads, by a line of its output; None for any other line."""
    found = re.search(r"Downloading from .*/([^/\s]+)$", line.rstrip())
    return found[1] if found else None


def _end_with_the_parent() -> None:
    """In Maven's process: end it with this process, also if this process is killed. Only Linux has the call."""
    if _C is not None:
        _C.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


_C = ctypes.CDLL(None) if sys.platform == "linux" else None


_CAUSES = (
    ("No space left on device", None),
    ("in offline mode", "Maven is in offline mode and does not have it; run once without offline mode"),
    (r"Checksum validation failed", "Maven got a damaged file; try again"),
    (
        r"Could not find artifact org\.apache\.kafka:kafka|Failure to find org\.apache\.kafka:kafka",
        "Maven's repositories have no Kafka of this version; name one that exists",
    ),
    (
        r"Could not transfer|failed to transfer|Connect to |Connection |Unknown ?[hH]ost|nreachable|name resolution",
        "Maven cannot reach its repositories; check the network, and mirrors and proxies in ~/.m2/settings.xml",
    ),
)
"""Patterns of Maven's errors with their sentences, the first that matches; None is a full disk."""


def _why(output: str, status: int, folder: Path) -> str:
    for pattern, sentence in _CAUSES:
        if re.search(pattern, output):
            return sentence or _no_space(folder)
    first = output.partition("\n")[0][:300] or f"it ended with status {status}"
    return f"Maven failed: {first}; see if `mvn -version` works"


def _digest(jar: Path) -> str:
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _check(version: str, place: Path) -> None:
    """Compare the jars with the list of what was fetched. Raises InputError at the first that differs."""
    libs = place / "libs"
    try:
        listed = msgspec.json.decode((place / _LISTED).read_bytes(), type=dict[str, tuple[int, str]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _refused(version, f"{place / _LISTED} is damaged; remove {place}") from None
    found = {jar.name for jar in libs.iterdir()}
    wrong = sorted(found ^ set(listed)) or [
        name for name, (size, _) in listed.items() if (libs / name).stat().st_size != size
    ]
    wrong = wrong or [name for name, (_, digest) in listed.items() if _digest(libs / name) != digest]
    if wrong:
        raise _refused(version, f"{libs / wrong[0]} is not the file that was fetched; remove {place}")
