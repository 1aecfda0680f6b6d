"""The Java bridge: finds Kafka's jars, compiles a program against them, and runs it to answer lines of JSON.

The bridge is a program in the package of Kafka's control managers (``java/``). Its classes are cached by a digest of
its adapted sources, of the API that they link to, and of the compiler's version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import BadZipFile, ZipFile

import msgspec

from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.processes import JsonProcess
from highwater.checker.conform import releases
from highwater.checker.conform.class_files import ClassFile, ClassPath
from highwater.checker.conform.kafka_request import ANSWER_FIELDS
from highwater.checker.conform.sources import adapted, missing
from highwater.checker.engines import cache

OLDEST_JAVA = 17
_MANAGER = "org/apache/kafka/controller/ReplicationControlManager.class"
_MAIN = "org.apache.kafka.controller.Bridge"
THROWS = "(throws)"
"""In place of an error: Kafka throws outside its answer, as when it replays its own records."""
_MEMORY = "/dev/shm"
"""The place of the brokers' directories, if it can be written."""
_PATIENCE = 20
_POLL, _GRACE = 0.5, 5.0
"""Seconds between two questions whether to stop, and to wait for an answer then."""
_LEFT_OUT = re.compile(r"(log4j-slf4j.*|.*-(test|tests|sources|javadoc|test-fixtures))\.jar|.*\.asc")
"""Jars left off the class path: loggers, because logging costs time, and jars of tests, sources and documentation."""
_RELEASE, _BUILD = (
    ("libs/*.jar",),
    ("*/build/libs/*.jar", "*/*/build/libs/*.jar", "core/build/dependant-libs*/*.jar"),
)
"""The places of jars. A module's own jar comes before its copy among the dependencies, which may be older."""


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
            jars = [j for p in patterns for j in sorted(place.glob(p)) if not _LEFT_OUT.fullmatch(j.name)]
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
        printed = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r"javac (\d+)", printed.stdout + printed.stderr)
        if match is None or int(match[1]) < OLDEST_JAVA:
            version = match[1] if match else "an unknown version"
            raise InputError(f"conform needs a JDK {OLDEST_JAVA} or later; {javac} is {version}")
        return cls(java, javac, match.string.strip())


# --- compiling ----------------------------------------------------------------------------------------------


def compiled(jars: Jars, jdk: Jdk) -> bytes:
    """The bridge's classes as the bytes of a jar, from the cache or compiled against these jars.

    Jars with the same API share the classes. Raises InputError if the compiler fails.
    """
    classes = ClassPath([*jars.before, *jars.jars])
    with as_file(files(__package__) / "java") as folder:
        texts = adapted(sorted(folder.rglob("*.java")), classes)
    named = hashlib.sha256(f"conform bridge\n{jdk.version}\n{texts}".encode()).digest()
    place = cache.chosen()
    known = place.get(named) if place is not None else None
    linked = set(msgspec.json.decode(known, type=list[str])) if known else set[str]()
    content = place.get(named + classes.api(linked)) if place is not None and linked else None
    if content is None:
        content = _compile(jars, jdk, texts)
        with ZipFile(BytesIO(content)) as jar:
            linked = linked.union(*(ClassFile.of(jar.read(name)).linked for name in jar.namelist()))
        if place is not None:
            place.put(named, msgspec.json.encode(sorted(linked)))
            place.put(named + classes.api(linked), content)
    return content


def _compile(jars: Jars, jdk: Jdk, texts: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="highwater-") as made:
        classes = Path(made) / "classes"
        for name, text in texts.items():
            (Path(made) / name).write_text(text, encoding="utf-8")
        command = [jdk.javac, "-nowarn", "-proc:none", "-encoding", "UTF-8", "-Xdiags:verbose"]
        command += ["-cp", os.pathsep.join(jars.class_path), "-d", str(classes)]
        done = subprocess.run(
            [*command, *(str(Path(made) / name) for name in texts)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise InputError(f"--kafka {jars.directory}: {missing(done.stderr, texts)}")
        packed = Path(made) / "bridge.jar"
        with ZipFile(packed, "w") as jar:
            for file in sorted(classes.rglob("*.class")):
                jar.write(file, file.relative_to(classes))
        return packed.read_bytes()


# --- the process --------------------------------------------------------------------------------------------


class NoAnswerError(Exception):
    """Kafka's code does not end an operation."""

    def __init__(self, path: int, operation: int, at: str) -> None:
        super().__init__(f"no answer; Kafka is at {at}")
        self.path, self.operation, self.at = path, operation, at
        """The number of the path in the question, and of the operation or step; -1: while the path is taken."""


class StoppedError(Exception):
    """The caller's reason to stop holds, and no answer comes."""


@dataclass
class Bridge:
    """A running Java bridge, as a context manager. A reply that reports an error of the bridge raises InternalError.

    After NoAnswerError and StoppedError the bridge is a new process, which knows no scenario.
    """

    jars: Jars
    options: tuple[str, ...] = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:-OmitStackTraceInFastThrow")
    patience: int = field(default_factory=lambda: _PATIENCE)
    """The seconds of processor time that Kafka's code may take for one operation."""
    stop: Callable[[], str | None] = lambda: None
    """Returns a reason to wait no longer for an answer."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Kafka's error codes by name; also ``THROWS``."""
    lacking: tuple[str, ...] = ()
    """Fields of operations that this Kafka's requests lack."""
    version: str = ""
    commit: str = ""
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The fields of this Kafka's answers and records, by message."""
    classes: bytes = b""
    """The bridge's own classes, as a jar."""
    scenario: object = None
    """The scenario and the operations that the process knows, as ``begin`` sent them."""
    _java: str = field(init=False)
    _process: JsonProcess = field(init=False)
    _place: tempfile.TemporaryDirectory[str] = field(init=False)

    def __enter__(self) -> Bridge:
        jdk = Jdk.found()
        self.classes = compiled(self.jars, jdk)
        memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self._place = tempfile.TemporaryDirectory(prefix="highwater-", dir=memory, ignore_cleanup_errors=True)
        self._java = jdk.java
        try:
            self._start()
        except BaseException:
            self._place.cleanup()
            raise
        return self

    def _start(self) -> None:
        place = Path(self._place.name)
        place.mkdir(exist_ok=True)  # a process removes it at its end, because highwater may have been killed
        jar = place / "bridge.jar"
        jar.write_bytes(self.classes)
        class_path = os.pathsep.join([*map(str, self.jars.before), str(jar), *map(str, self.jars.jars)])
        command = [self._java, *self.options, "-cp", class_path, _MAIN, str(place), str(self.patience)]
        self._process, self.scenario = JsonProcess(command), None
        hello = self.receive()
        self.errors, self.version, self.commit = hello["errors"], hello["kafka"], hello["commit"]
        self.lacking, self.fields = tuple(hello["lacking"]), hello["fields"]
        if tuple(hello["says"]) != ANSWER_FIELDS:
            raise InternalError(f"the Java bridge's answers have the fields {', '.join(hello['says'])}")

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()
        self._place.cleanup()

    def send(self, question: object) -> None:
        """Send a question as a line of JSON."""
        self._process.send(msgspec.json.encode(question))

    def receive(self) -> dict[str, Any]:
        """Receive the next answer.

        Raises InternalError if the bridge ended or failed, NoAnswerError, and StoppedError a few seconds after
        ``stop`` returns a reason.
        """
        end = float("inf")
        while True:
            try:
                line = self._process.receive(_POLL)
                break
            except TimeoutError:
                why = self.stop()
                end = min(end, time.monotonic() + _GRACE) if why else float("inf")
                if why and time.monotonic() >= end:
                    self._again()
                    raise StoppedError(why) from None
        if not line:
            raise InternalError(f"the Java bridge ended: {self._last_words()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "bridge" in answer:
            raise InternalError(f"the Java bridge failed: {answer['bridge']}")
        if "waits" in answer:
            self._again()
            raise NoAnswerError(answer["path"], answer["operation"], answer["waits"])
        return answer

    def _again(self) -> None:
        self._process.close()
        self.stop = lambda: None
        self._start()

    def ask(self, question: object) -> dict[str, Any]:
        """Send a question and receive its answer."""
        self.send(question)
        return self.receive()

    def begin(self, scenario: object) -> None:
        """Send a scenario and the operations that later questions number."""
        self.ask(scenario)
        self.scenario = scenario

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
        printed = [line for line in self._process.printed() if "SLF4J" not in line]
        return " / ".join(printed[:3])[:500] or f"exit status {status}"
