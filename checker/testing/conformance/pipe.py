"""An implementation in another process, driven by lines of JSON on its standard input and output.

The form of the lines is in ``pipe.schema.json`` and explained in docs/testing.md. No call waits forever: every answer
has a time limit, a line has a largest length, and a process that does not end is killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any

from highwater.checker.base.processes import JsonProcess
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
        self.timeout, self._last_id = timeout, 0
        self._broken: str | None = None
        if not command:
            raise AdapterError("there is no command to start")
        try:
            self._process = JsonProcess(command, MAX_LINE)
        except OSError as wrong:
            raise AdapterError(f"{command[0]}: {wrong.strerror or wrong}") from None
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
        self._broken = self._broken or "the adapter is closed"
        self._process.close(GRACE)

    def __enter__(self) -> PipeAdapter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, call: str, fields: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Send a request and read its answer. After a failed exchange every call fails with the same message."""
        if self._broken is None:
            try:
                answer = self._exchange(call, fields, self.timeout if timeout is None else timeout)
            except AdapterError as wrong:
                self._broken = str(wrong)
        if self._broken is not None:
            raise AdapterError(self._broken)
        if "failure" in answer:
            raise AdapterError(f"{call}: it failed: {printable(answer['failure'], 200)}")
        return answer

    def _exchange(self, call: str, fields: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "call": call, **fields}).encode()
        if len(line) >= MAX_LINE:
            raise AdapterError(f"{call}: the request is longer than {MAX_LINE} bytes")
        self._process.send(line)
        try:
            raw = self._process.receive(timeout)
        except TimeoutError:
            raise AdapterError(f"{call}: no answer in time{self._heard()}") from None
        if not raw:
            status = self._process.status(1)
            how = "its output" if status is None else f"with status {status}"
            raise AdapterError(f"{call}: the process ended {how}{self._heard()}")
        if len(raw.rstrip(b"\n")) >= MAX_LINE:
            raise AdapterError(f"{call}: the answer is longer than {MAX_LINE} bytes")
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            shown = printable(raw.decode(errors="replace").rstrip(), 80)
            raise AdapterError(f"{call}: the answer is not JSON: {shown}") from None
        if not isinstance(answer, dict):
            raise AdapterError(f"{call}: the answer is not an object: {_short(answer)}")
        if answer.get("id") != self._last_id:
            raise AdapterError(f"{call}: the answer has id {answer.get('id')!r:.40}, not {self._last_id}")
        return answer

    def _heard(self) -> str:
        printed = [printable(line, 200) for line in self._process.printed()[-5:]]
        return f"; it said: {' / '.join(printed)}" if printed else ""


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
