"""A model compiled: its layout, its kernels and the functions of the search around them."""

from __future__ import annotations

from checker.native.kernels import PREDECESSOR_BITS, Kernels
from checker.native.layout import Layout
from checker.native.machine import Machine
from checker.native.runtime import Runtime
from checker.native.symmetry import canonical, refuse_asymmetry
from checker.native.worker import Worker
from checker.search import EngineError
from model.language.model import Model


class Program:
    """Machine code of a model. Raises EngineError where the model is beyond this engine."""

    def __init__(self, model: Model, symmetry: bool = False) -> None:
        self.model = model
        self.layout = Layout(model.leaves)
        self.instances = len(model.instances)
        if self.instances >= 1 << PREDECESSOR_BITS:
            raise EngineError(f"{self.instances} action instances are more than the native engine can number")
        if len(model.properties) > 64:
            raise EngineError("the native engine checks at most 64 properties in one run")
        kernels = Kernels(model, self.layout)
        self.text = kernels.text()
        if symmetry:
            refuse_asymmetry(model)
            self.text += canonical(model, self.layout)
        self.text += Runtime(self.layout.words, self.instances, "canonical" if symmetry else "fingerprint").text()
        self._machine = Machine(self.text)
        self.expand = self._machine.function("expand", 1)
        self.admit = self._machine.function("admit", 1)
        self.walk = self._machine.function("walk", 1)
        self.judge = self._machine.function("judge", 2, result=True)
        self.grow = self._machine.function("grow", 5, result=True)

    def worker(self, want_deadlock: bool = False) -> Worker:
        """Buffers for one thread."""
        model = self.model
        return Worker(
            self.layout.words, self.instances, len(model.bounds), len(model.properties), want_deadlock
        )
