"""Compiling beside searching: better code is made by another process while the code at hand is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from highwater.checker.engines.native.code import compiler, machine
from highwater.checker.engines.native.code.machine import Effort, Machine, Processor, TextName


class Beside:
    """Code that a process makes meanwhile; ``done`` is called with it, on another thread, when it is there.

    A process and no thread: LLVM's binding lets one thread in at a time, and a thread could not be given up. This
    process does not end before it has the code, unless it is given up: what was made is kept for the next run.
    """

    def __init__(self, text: str, effort: Effort, done: Callable[[Machine], None]) -> None:
        self._effort, self._done, self._given_up = effort, done, False
        self._whole = machine.whole(text)
        # Neither the current directory nor that of the script is a place for modules; ours may not be the usual ones.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", compiler.source()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._thread = threading.Thread(target=self._follow, name="compiling")
        self._thread.start()

    @property
    def under_way(self) -> bool:
        """Whether the code is still to come."""
        return self._thread.is_alive()

    def give_up(self) -> None:
        """End it; ``done`` is not called any more."""
        self._given_up = True
        with suppress(ProcessLookupError):
            self._process.kill()
        self._thread.join()

    def wait(self) -> None:
        """Until the code was handed over, or cannot be made."""
        self._thread.join()

    def _follow(self) -> None:
        processor, process = Processor.host(), self._process
        assert process.stdin is not None
        assert process.stdout is not None
        content = self._whole.encode()
        asked = {
            "llvm": compiler.llvm_versions(),
            "processor": processor.parts,
            "levels": self._effort.value,
            "tuning": machine.TUNING,
            "bytes": len(content),
        }
        code = b""
        with suppress(OSError), process:
            process.stdin.write(json.dumps(asked).encode() + b"\n" + content)
            process.stdin.flush()
            code = process.stdout.read()
            process.wait()
        if process.returncode == 0 and code and not self._given_up:
            machine.keep(TextName.of(self._whole), processor, self._effort, code)
            self._done(Machine.of(code, self._effort))
