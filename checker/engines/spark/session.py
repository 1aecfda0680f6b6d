"""The Spark session and its jobs: start, logs, cancellation and repetition."""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from highwater.checker.base.problems import InputError, interruption
from highwater.checker.engines.spark.request import package
from highwater.checker.scenarios.search import EngineError

_CONFIGURATION = {
    "spark.app.name": "highwater",
    "spark.ui.showConsoleProgress": "false",
    # The number of partitions is the number of buckets, and must not change.
    "spark.sql.adaptive.enabled": "false",
    # Blocks are large, so few of them are passed to Python at a time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.python.worker.reuse": "true",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Within one machine, compressing the shuffle costs more than it saves.
    "spark.shuffle.compress": "false",
}

EXECUTOR_SECONDS = 60.0
"""The seconds within which a cluster must start its first executor."""
_SETTLED_SECONDS = 1.0
_REFRESH = 0.2
_ATTEMPTS = 3
"""A job is started at most this many times. Within each job, Spark itself also repeats failed tasks."""
Watch = Callable[[str], bool]

_current: SparkConnection | None = None


class SparkConnection:
    """A Spark session on a master. ``sql`` is Spark's own session object."""

    def __init__(self, master: str) -> None:
        self.master = master
        self._directory = tempfile.TemporaryDirectory(prefix="highwater-spark-")
        self._log = (Path(self._directory.name) / "spark.log").open("ab")
        try:
            self.sql = self._start()
        except BaseException:
            self._log.close()
            self._directory.cleanup()
            raise
        self.context = self.sql.sparkContext
        if not master.startswith("local"):
            try:
                self._await_executors()
            except BaseException:
                self.stop()
                raise

    @property
    def cores(self) -> int:
        """The number of tasks that can run at the same time, as far as Spark knows it now."""
        return max(1, int(self.context.defaultParallelism))

    def _start(self) -> Any:
        _find_java()
        _reach(self.master)
        try:
            for name in ("pandas", "pyarrow"):
                importlib.import_module(name)
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
            from pyspark.sql import SparkSession
        except ImportError as missing:
            raise InputError(
                f"--engine spark needs the package {missing.name}: pip install 'highwater-checker[spark]'"
            ) from None
        local = self.master.startswith("local")
        if local:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        conf = SparkConf(loadDefaults=False).setMaster(self.master)
        for key, value in {**_CONFIGURATION, **(_LOCAL if self.master.startswith("local[") else {})}.items():
            conf.set(key, value)
        interrupted = threading.Event()
        # Ctrl-C takes effect after the start, because during the start Spark would log tracebacks.
        with interruption(interrupted.set):
            ours = signal.getsignal(signal.SIGINT)
            try:
                started: Any = launch_gateway
                gateway = started(conf=conf, popen_kwargs={"stdout": self._log, "stderr": self._log})
                context = SparkContext(gateway=gateway, conf=conf)
                # Spark has set a handler that cancels jobs; this code and the search handle Ctrl-C instead.
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGINT, ours)
                context.setLogLevel("ERROR")
                if not local:
                    context.addPyFile(str(package(Path(self._directory.name))))
                started = SparkSession(context)
            except Exception as wrong:
                raise InputError(
                    f"--spark-master {self.master}: Spark does not start: {cause(wrong)}"
                ) from None
        if interrupted.is_set():
            started.stop()
            raise KeyboardInterrupt
        return started

    def _await_executors(self) -> None:
        """Wait for the first executor, and for executors that start right after it.

        Raises InputError if no executor starts, because a job would wait forever. With dynamic allocation, executors
        start with the first job, so the method returns without waiting.
        """
        if self.context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
            return
        deadline, seen, since = time.monotonic() + EXECUTOR_SECONDS, 0, 0.0
        while time.monotonic() < deadline and (not seen or time.monotonic() - since < _SETTLED_SECONDS):
            # The status also counts the driver.
            found = self.context._jsc.sc().getExecutorMemoryStatus().size() - 1
            if found > seen:
                seen, since = found, time.monotonic()
            time.sleep(0.1)
        if not seen:
            raise InputError(
                f"--spark-master {self.master}: no executor came within {EXECUTOR_SECONDS:.0f} seconds; "
                "are there workers with free cores and memory?"
            )

    def stop(self) -> None:
        """End the session and its Java process, and remove the session's log."""
        from pyspark import SparkContext

        gateway = self.context._gateway
        self.sql.stop()
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=60)
        # Otherwise the next session would look for the old one.
        SparkContext._gateway = SparkContext._jvm = None
        self._log.close()
        self._directory.cleanup()


def session(master: str) -> SparkConnection:
    """A session on this master: the present session, or a new one if the present session is on another master.

    Only one session is open at a time, so a new session closes the present one. Raises InputError if Spark does not
    start.
    """
    global _current
    if _current is not None and _current.master != master:
        close()
    if _current is None:
        _current = SparkConnection(master)
        atexit.register(close)
    return _current


def close() -> None:
    """End the present session, if there is one."""
    global _current
    ended, _current = _current, None
    if ended is not None:
        atexit.unregister(close)
        ended.stop()


def collect(session: SparkConnection, frame: Any, what: str, watch: Watch) -> list[Any] | None:
    """Run a Spark job, and return the rows of a data frame; None if the job was cancelled.

    ``what`` describes the job in Spark and in errors. ``watch`` is called repeatedly with the name of the job's
    group. It returns True to cancel the job. If a job fails because of the cluster, it is repeated, so results must
    not depend on the attempt. Raises EngineError if the job still fails.
    """
    context = session.context

    def rows(group: str) -> list[Any]:
        context.setJobGroup(group, what, interruptOnCancel=True)
        return list(frame.collect())

    with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as pool:
        for attempt in range(1, _ATTEMPTS + 1):
            group = f"highwater-{uuid.uuid4().hex}"
            job, cancelled = pool.submit(rows, group), False
            while not job.done():
                wait([job], timeout=_REFRESH)
                if watch(group):
                    # Cancel repeatedly, because the job may not have begun yet.
                    cancelled = True
                    context.cancelJobGroup(group)
            wrong = job.exception()
            if cancelled:
                return None
            if wrong is None:
                return job.result()
            if attempt == _ATTEMPTS or not may_pass(wrong):
                raise EngineError(f"Spark gave up on {what}: {cause(wrong)}") from None
    raise AssertionError


def may_pass(wrong: BaseException) -> bool:
    """True if an error comes from the cluster (a lost executor, missing blocks), so that a new attempt may succeed."""
    return "PythonException" not in f"{type(wrong).__name__} {wrong}" and "SparkException" in str(wrong)


def cause(wrong: BaseException) -> str:
    """The innermost cause of a Spark error, as one line."""
    text = str(wrong)
    python = re.findall(r"^(?:[\w.]+(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    if python and "PythonException: Traceback" in text:
        return str(python[-1]).strip()
    causes = re.findall(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", text, re.MULTILINE)
    if causes:
        return str(causes[-1]).strip()
    aborted = re.search(r"SparkException: (?:Job aborted due to stage failure: )?(.+)$", text, re.MULTILINE)
    if aborted:
        return aborted[1].strip()
    if python:
        return str(python[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(wrong).__name__


def _find_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home) / "bin" / "java", os.X_OK):
            raise InputError(f"--engine spark needs Java 17 or newer: JAVA_HOME is {home}, without bin/java")
    elif shutil.which("java") is None:
        raise InputError(
            "--engine spark needs Java 17 or newer: no java on the path, and JAVA_HOME is not set"
        )


def _reach(master: str) -> None:
    """Raises InputError if the URL of the master is wrong or no standalone master responds.

    Spark itself would try for minutes.
    """
    if not re.match(r"(local(\[|$)|local-cluster\[|spark://|k8s://|yarn$)", master):
        raise InputError(f"--spark-master {master}: write local[N], spark://HOST:PORT, yarn or k8s://URL")
    if not master.startswith("spark://"):
        return
    wrong: Exception | None = None
    for address in master.removeprefix("spark://").split(","):
        try:
            split = urlsplit(f"//{address}")
            with socket.create_connection((split.hostname, split.port or 7077), timeout=5):
                return
        except (OSError, ValueError) as refused:
            wrong = refused
    reason = getattr(wrong, "strerror", None) or wrong
    raise InputError(f"--spark-master {master}: no master there: {reason}")
