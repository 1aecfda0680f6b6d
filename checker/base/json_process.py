"""A process that answers lines on its standard input by lines on its standard output."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

_WAITING = 16
"""The lines of the output that may wait to be received. A process that writes more has to wait."""


class JsonProcess:
    """A running command. Threads write its input and read its output, so no call waits longer than its timeout.

    ``max_line`` is the most bytes of a line of the output; a longer line is divided. Raises OSError if the command
    cannot be started.
    """

    def __init__(self, command: Sequence[str], max_line: int = -1) -> None:
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C does not reach it, and ``close`` also ends its children
        )
        self._max_line, self._said = max_line, deque[str](maxlen=1000)
        self._to = queue.SimpleQueue[bytes | None]()
        self._from = queue.Queue[bytes](_WAITING)
        self._closed = False
        targets = (self._write, self._read, self._listen)
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def send(self, line: bytes) -> None:
        """Send a line without its end. It is written as soon as the process reads it."""
        self._to.put(line + b"\n")

    def receive(self, timeout: float | None = None) -> bytes:
        """The next line of the output; empty if the output has ended. Raises TimeoutError after ``timeout`` seconds."""
        try:
            line = self._from.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            self._from.put(b"")  # for later calls
        return line

    def status(self, seconds: float) -> int | None:
        """The exit status; None if the process does not end within ``seconds``."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def said(self) -> list[str]:
        """The last lines of the standard error."""
        self._threads[2].join(0.05)  # until the last lines of an ended process have been read
        return list(self._said)

    def close(self, grace: float = 0.0) -> None:
        """Close the input, wait ``grace`` seconds, then kill the process with all processes that it started."""
        self._to.put(None)
        try:
            self.status(grace)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self._closed = True
            for thread in self._threads:
                thread.join(1)
            with self._from.mutex:
                self._from.queue.clear()
            self._from.put(b"")

    def _write(self) -> None:
        assert self.process.stdin
        with suppress(OSError), self.process.stdin as stream:
            while (line := self._to.get()) is not None:
                stream.write(line)
                stream.flush()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as stream:
            while line := stream.readline(self._max_line):
                self._pass_on(line)
        self._pass_on(b"")

    def _pass_on(self, line: bytes) -> None:
        """Put a line where ``receive`` finds it. Waits until there is room, but not after ``close``."""
        while not self._closed:
            with suppress(queue.Full):
                self._from.put(line, timeout=0.1)
                return

    def _listen(self) -> None:
        assert self.process.stderr
        with self.process.stderr as stream:
            while line := stream.readline(1000):
                self._said.append(line.decode(errors="replace").strip())
