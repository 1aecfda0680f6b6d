"""An implementation in another process, driven by lines of JSON on its standard input and output.

The form of the lines is in ``pipe.schema.json`` and explained in docs/testing.md. No call waits forever: every answer
has a time limit, a line has a largest length, and a process that does not end is killed.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any

from highwater.checker.testing.conformance.lockstep import Adapter, AdapterError, Outcome
from highwater.traces.reading import printable

VERSION = 1
MAX_LINE = 1 << 20
"""The most bytes of a line, its end included."""
GRACE = 2.0
"""The seconds that a process has to end by itself after the end of its input."""


class PipeAdapter(Adapter):
    """Starts a command and drives it. Close it, or use it as a context manager. Every failure raises AdapterError.

    The first answer may take ``start_timeout`` seconds, every later answer ``timeout`` seconds.
    """

    def __init__(self, command: Sequence[str], *, timeout: float = 10.0, start_timeout: float = 60.0) -> None:
        self.timeout, self._last_id, self._buffer = timeout, 0, b""
        self._said: deque[str] = deque(maxlen=5)
        self._broken: str | None = None
        if not command:
            raise AdapterError("there is no command to start")
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # so that ``close`` also ends the command's child processes
            )
        except OSError as wrong:
            raise AdapterError(f"{command[0]}: {wrong.strerror or wrong}") from None
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        try:
            hello = self._call("hello", {"version": VERSION}, start_timeout)
            if hello.get("version") != VERSION:
                raise AdapterError(f"it speaks version {hello.get('version')!r:.40}, not {VERSION}")
        except BaseException:
            self.close()
            raise
        self.implementation = str(hello.get("implementation", "unnamed"))

    def reset(self, state: Mapping[str, Any]) -> None:
        """Request a reset to the initial state ``state``."""
        self._call("reset", {"state": dict(state)})

    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        """Request an operation, and return its outcome."""
        answer = self._call("apply", {"operation": operation, "parameters": dict(parameters)})
        outcome, error = answer.get("outcome"), answer.get("error")
        if outcome not in ("done", "refused") or not (error is None or isinstance(error, str)):
            raise AdapterError(f"the answer to apply has no outcome, done or refused: {_short(answer)}")
        return Outcome(outcome == "done", error)

    def observe(self) -> Mapping[str, Any]:
        """Request the visible part of the state."""
        state = self._call("observe", {}).get("state")
        if not isinstance(state, dict):
            raise AdapterError("the answer to observe has no state, an object")
        return state

    def close(self) -> None:
        """End the process: close its input, wait GRACE seconds, then kill it with all processes that it started."""
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._listener.join(1)

    def __enter__(self) -> PipeAdapter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, call: str, fields: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Send a request and read its answer. After a failed exchange every call fails with the same message."""
        if self._broken is None:
            deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
            try:
                answer = self._exchange(call, fields, deadline)
            except AdapterError as wrong:
                self._broken = str(wrong)
        if self._broken is not None:
            raise AdapterError(self._broken)
        if "failure" in answer:
            raise AdapterError(f"{call}: it failed: {printable(answer['failure'], 200)}")
        return answer

    def _exchange(self, call: str, fields: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "call": call, **fields}).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise AdapterError(f"{call}: the request is longer than {MAX_LINE} bytes")
        self._send(line, call, deadline)
        raw = self._receive(call, deadline)
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            shown = printable(raw.decode(errors="replace"), 80)
            raise AdapterError(f"{call}: the answer is not JSON: {shown}") from None
        if not isinstance(answer, dict):
            raise AdapterError(f"{call}: the answer is not an object: {_short(answer)}")
        if answer.get("id") != self._last_id:
            raise AdapterError(f"{call}: the answer has id {answer.get('id')!r:.40}, not {self._last_id}")
        return answer

    def _send(self, line: bytes, call: str, deadline: float) -> None:
        while line:
            self._wait(self._in, selectors.EVENT_WRITE, call, deadline)
            try:
                line = line[os.write(self._in, line) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ValueError):
                raise self._ended(call) from None

    def _receive(self, call: str, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            if len(self._buffer) >= MAX_LINE:
                raise AdapterError(f"{call}: the answer is longer than {MAX_LINE} bytes")
            self._wait(self._out, selectors.EVENT_READ, call, deadline)
            try:
                read = os.read(self._out, 1 << 16)
            except BlockingIOError:
                continue
            if not read:
                raise self._ended(call)
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        if len(line) >= MAX_LINE:
            raise AdapterError(f"{call}: the answer is longer than {MAX_LINE} bytes")
        return line

    def _wait(self, descriptor: int, event: int, call: str, deadline: float) -> None:
        if self._process.stdin is None or self._process.stdin.closed:
            raise AdapterError(f"{call}: the adapter is closed")
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise AdapterError(f"{call}: no answer in time{self._heard()}")

    def _ended(self, call: str) -> AdapterError:
        try:
            status = f"with status {self._process.wait(1)}"
        except subprocess.TimeoutExpired:
            status = "its output"
        return AdapterError(f"{call}: the process ended {status}{self._heard()}")

    def _heard(self) -> str:
        time.sleep(0.05)  # until the process's last lines have been read
        return f"; it said: {' / '.join(self._said)}" if self._said else ""

    def _listen(self, stream: IO[bytes]) -> None:
        """Read the process's standard error, so that it never blocks, and keep the last lines."""
        with stream:
            while line := stream.readline(1000):
                self._said.append(printable(line.decode(errors="replace").strip(), 200))


def serve(adapter: Adapter, source: IO[str], target: IO[str], implementation: str = "unnamed") -> None:
    """Run an adapter written in Python as the process behind a PipeAdapter: answer requests until ``source`` ends."""
    for line in source:
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request.get("id")}
        try:
            call = request["call"]
            if call == "hello":
                answer |= {"version": VERSION, "implementation": implementation}
            elif call == "reset":
                adapter.reset(request["state"])
            elif call == "apply":
                outcome = adapter.apply(request["operation"], request["parameters"])
                answer["outcome"] = "done" if outcome.done else "refused"
                if outcome.error is not None:
                    answer["error"] = outcome.error
            elif call == "observe":
                answer["state"] = dict(adapter.observe())
            else:
                answer["failure"] = f"unknown call {call!r}"
        except Exception as wrong:  # the checker reports it
            answer["failure"] = f"{type(wrong).__name__}: {wrong}"
        target.write(json.dumps(answer) + "\n")
        target.flush()


def _short(value: object) -> str:
    return printable(json.dumps(value), 80)
