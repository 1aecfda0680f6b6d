"""The Java bridge: finds Kafka's jars, compiles a program against them, and runs it to answer lines of JSON.

The bridge is a program in the package of Kafka's control managers (``java/``). Its classes are cached by a digest of
its sources, of the jars, and of the compiler's version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import BadZipFile, ZipFile

import msgspec

from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.processes import JsonProcess
from highwater.checker.conform import releases
from highwater.checker.engines import cache

OLDEST_JAVA = 17
_MANAGER = "org/apache/kafka/controller/ReplicationControlManager.class"
_MAIN = "org.apache.kafka.controller.Bridge"
_LEFT_OUT = re.compile(r"(log4j-slf4j.*|.*-(test|tests|sources|javadoc|test-fixtures))\.jar|.*\.asc")
"""Jars left off the class path: loggers, because logging costs time, and jars of tests, sources and documentation."""
_RELEASE, _BUILD = (
    ("libs/*.jar",),
    ("*/build/libs/*.jar", "*/*/build/libs/*.jar", "core/build/dependant-libs*/*.jar"),
)


@dataclass(frozen=True)
class Jars:
    """The jars of a Kafka release or of a build tree.

    ``before`` has directories and jars that come first on the class path, so their classes replace Kafka's.
    """

    directory: Path
    jars: tuple[Path, ...]
    before: tuple[Path, ...] = ()

    @classmethod
    def found(
        cls,
        kafka: str | Path,
        before: Iterable[str | Path] = (),
        show: releases.Show = lambda line: None,
    ) -> Jars:
        """The jars of a version such as ``4.2.1``, or below a directory. ``show`` reports how Maven fetches a version.

        Raises InputError if the version cannot be had, a path is missing, or no jar has Kafka's controller.
        """
        place = Path(kafka)
        if releases.is_version(str(kafka)):
            Jdk.found()  # before anything is fetched
            place = releases.release(str(kafka), show)
        elif not place.is_dir():
            raise InputError(f"--kafka {kafka}: no such directory; a version has digits and dots, like 4.2.1")
        for patterns in (_RELEASE, _BUILD):
            jars = sorted({j for p in patterns for j in place.glob(p) if not _LEFT_OUT.fullmatch(j.name)})
            if any(_has_controller(jar) for jar in jars):
                first = tuple(Path(b) for b in before)
                for path in first:
                    if not path.exists():
                        raise InputError(f"--before {path}: no such directory or jar")
                return cls(place, tuple(jars), first)
        raise InputError(
            f"--kafka {kafka}: no jar with Kafka's controller; name an unpacked release (libs/*.jar), "
            "or a checkout after ./gradlew jar copyDependantLibs"
        )

    @property
    def class_path(self) -> list[str]:
        """The entries of the class path, except the bridge's own classes."""
        return [str(path) for path in (*self.before, *self.jars)]

    def digest(self) -> bytes:
        """A digest of the content of all files on the class path."""
        found = hashlib.sha256()
        for path in (*self.before, *self.jars):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    found.update(f"{file.name} {file.stat().st_size}\n".encode())
                    with file.open("rb") as content:
                        found.update(hashlib.file_digest(content, "sha256").digest())
        return found.digest()


def _has_controller(jar: Path) -> bool:
    if not jar.name.startswith("kafka-metadata"):
        return False
    try:
        with ZipFile(jar) as content:
            return _MANAGER in content.namelist()
    except (OSError, BadZipFile) as wrong:
        raise InputError(f"{jar}: no jar that can be read: {wrong}") from None


# --- the JDK ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jdk:
    """A JDK of version 17 or later, with its compiler."""

    java: str
    javac: str
    version: str

    @classmethod
    def found(cls) -> Jdk:
        """The JDK of JAVA_HOME or, without that variable, the JDK on the path.

        Raises InputError if there is none, or it is older than 17.
        """
        home = os.environ.get("JAVA_HOME")
        where = str(Path(home) / "bin") if home else None
        java, javac = (shutil.which(name, path=where) for name in ("java", "javac"))
        if java is None or javac is None:
            missing = "java" if java is None else "javac"
            raise InputError(
                f"conform needs a JDK {OLDEST_JAVA} or later, and there is no {missing} "
                + (f"in {where} (JAVA_HOME)" if home else "on the path")
            )
        said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r"javac (\d+)", said.stdout + said.stderr)
        if match is None or int(match[1]) < OLDEST_JAVA:
            version = match[1] if match else "an unknown version"
            raise InputError(f"conform needs a JDK {OLDEST_JAVA} or later; {javac} is {version}")
        return cls(java, javac, match.string.strip())


# --- compiling ----------------------------------------------------------------------------------------------


def compiled(jars: Jars, jdk: Jdk) -> bytes:
    """The bridge's classes as the bytes of a jar, from the cache or compiled against these jars.

    Raises InputError if the compiler fails.
    """
    sources = files(__package__) / "java"
    with as_file(sources) as folder:
        texts = sorted(folder.rglob("*.java"))
        key = hashlib.sha256(b"conform bridge\n" + jdk.version.encode() + jars.digest())
        for text in texts:
            key.update(text.read_bytes())
        place = cache.chosen()
        content = place.get(key.digest()) if place is not None else None
        if content is None:
            content = _compile(jars, jdk, texts)
            if place is not None:
                place.put(key.digest(), content)
    return content


def _compile(jars: Jars, jdk: Jdk, texts: list[Path]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="highwater-") as made:
        classes = Path(made) / "classes"
        command = [
            jdk.javac,
            "-nowarn",
            "-proc:none",
            "-encoding",
            "UTF-8",
            "-cp",
            os.pathsep.join(jars.class_path),
        ]
        done = subprocess.run(
            [*command, "-d", str(classes), *map(str, texts)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise InputError(f"--kafka {jars.directory}: {_why_not_compiled(done.stderr)}")
        packed = Path(made) / "bridge.jar"
        with ZipFile(packed, "w") as jar:
            for file in sorted(classes.rglob("*.class")):
                jar.write(file, file.relative_to(classes))
        return packed.read_bytes()


def _why_not_compiled(said: str) -> str:
    """The reason why the bridge cannot be compiled, from the compiler's output ``said``.

    It is the first class, method or package that this Kafka lacks, else the first error.
    """
    missing = re.search(r"symbol:\s+(.*)\n(?:\s*location:\s+(.*))?", said)
    if missing:
        place = f" in {missing[2].strip()}" if missing[2] else ""
        return f"this Kafka has no {missing[1].strip()}{place}"
    package = re.search(r"error: (package \S+ does not exist)", said)
    first = re.search(r"error: (.*)", said)
    return f"the bridge does not compile: {(package or first or [None, said[:300]])[1]}"


# --- the process --------------------------------------------------------------------------------------------


@dataclass
class Bridge:
    """A running Java bridge, as a context manager. A reply that reports an error of the bridge raises InternalError."""

    jars: Jars
    options: tuple[str, ...] = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:-OmitStackTraceInFastThrow")
    errors: Mapping[str, int] = field(default_factory=dict)
    """Kafka's error codes by name."""
    version: str = ""
    commit: str = ""
    _process: JsonProcess = field(init=False)
    _place: tempfile.TemporaryDirectory[str] = field(init=False)

    def __enter__(self) -> Bridge:
        jdk = Jdk.found()
        classes = compiled(self.jars, jdk)
        self._place = tempfile.TemporaryDirectory(prefix="highwater-")
        jar = Path(self._place.name) / "bridge.jar"
        jar.write_bytes(classes)
        class_path = os.pathsep.join([*map(str, self.jars.before), str(jar), *map(str, self.jars.jars)])
        self._process = JsonProcess([jdk.java, *self.options, "-cp", class_path, _MAIN])
        hello = self.receive()
        self.errors, self.version, self.commit = hello["errors"], hello["kafka"], hello["commit"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()
        self._place.cleanup()

    def send(self, question: object) -> None:
        """Send a question as a line of JSON."""
        self._process.send(msgspec.json.encode(question))

    def receive(self) -> dict[str, Any]:
        """Receive the next answer. Raises InternalError if the bridge ended or failed."""
        line = self._process.receive()
        if not line:
            raise InternalError(f"the Java bridge ended: {self._last_words()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "bridge" in answer:
            raise InternalError(f"the Java bridge failed: {answer['bridge']}")
        return answer

    def ask(self, question: object) -> dict[str, Any]:
        """Send a question and receive its answer."""
        self.send(question)
        return self.receive()

    def answered(self, questions: Iterable[object], ahead: int = 2) -> Iterator[dict[str, Any]]:
        """Yield the answers to the questions, in order.

        Up to ``ahead`` questions are sent in advance, so both sides stay busy.
        """
        waiting = 0
        for question in questions:
            self.send(question)
            waiting += 1
            if waiting > ahead:
                yield self.receive()
                waiting -= 1
        for _ in range(waiting):
            yield self.receive()

    def _last_words(self) -> str:
        status = self._process.status(5)
        said = [line for line in self._process.said() if "SLF4J" not in line]
        return " / ".join(said[:3])[:500] or f"exit status {status}"
