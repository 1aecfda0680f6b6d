"""Hypothesis machines that compare an implementation with the model. Operations are drawn; a mismatch is shrunk."""

from __future__ import annotations

try:
    import hypothesis as _needed  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "highwater.checker.testing.conformance.stateful needs the package hypothesis: "
        "pip install 'highwater-checker[test]'"
    ) from None

from collections.abc import Sequence
from typing import Any, ClassVar

from hypothesis.stateful import initialize

from highwater.checker.scenarios.request import Subject, asked
from highwater.checker.testing.conformance.lockstep import (
    Adapter,
    Contract,
    Lockstep,
    Mismatch,
    check_contract,
)
from highwater.checker.testing.machines import BurstMachine, shrunk

REFUSED_ONE_IN = 4
"""One in this number of drawn operations is an operation that the model refuses, if there is any."""


class ConformanceMachine(BurstMachine):
    """The base class of the machines that ``conformance_machine`` makes."""

    adapter: ClassVar[Adapter]
    contract: ClassVar[Contract]
    best: ClassVar[list[int] | None]
    """The operations of the shortest known mismatch."""

    def __init__(self) -> None:
        super().__init__()
        self.lockstep = self._new()

    @initialize()
    def begin(self) -> None:
        """Reset the implementation at the start of a run."""
        self.lockstep.start()

    def fail(self) -> None:
        """Raise the mismatch of the run, shrunk."""
        __tracebackhide__ = True
        raise self._shortest(self.failure).with_traceback(None)

    def take(self, taste: int, order: int) -> int | None:
        """Carry out the preferred operation."""
        takes, refuses = self.lockstep.possible()
        choice = refuses if refuses and (order % REFUSED_ONE_IN == 0 or not takes) else takes
        if not choice:
            return None
        number = self.preferences.among(taste, order, self.by_action(choice))
        try:
            self.lockstep.step(number)
        except Mismatch as wrong:
            self.failure = wrong
        return number

    @classmethod
    def _new(cls) -> Lockstep:
        return Lockstep(cls.model, cls.adapter, cls.contract, cls.interpreter)

    @classmethod
    def _again(cls, operations: Sequence[int]) -> Mismatch | None:
        """Start a run, and carry out these operations in order; skip those that are not possible when their turn comes.

        Returns the mismatch, or None.
        """
        lockstep = cls._new()
        try:
            lockstep.start()
            for number in operations:
                if any(number in numbers for numbers in lockstep.possible()):
                    lockstep.step(number)
        except Mismatch as wrong:
            return wrong
        return None

    @classmethod
    def _shortest(cls, found: Mismatch) -> Mismatch:
        """Shrink a mismatch by repeated runs of the implementation, and return the shorter mismatch."""
        if cls.best is None or len(found.operations) <= len(cls.best):

            def attempt(operations: Sequence[int]) -> Sequence[int] | None:
                wrong = cls._again(operations)
                return None if wrong is None else wrong.operations

            cls.best = shrunk(found.operations, attempt)
        return cls._again(cls.best) or found


def conformance_machine(
    subject: Subject, adapter: Adapter, contract: Contract | None = None, **overrides: Any
) -> type[ConformanceMachine]:
    """A Hypothesis state machine class that compares an implementation with a protocol.

    ``subject`` and overrides are as for ``scenarios.request.asked``. Without ``contract``, only operations that the
    model allows are tried. A failing run raises a shrunk ``Mismatch``. Every run resets the adapter; the caller closes
    it. Raises InputError if the contract has a name that the protocol does not have.
    """
    request = asked(subject, **overrides).without_goals()
    model, contract = request.model(), contract or Contract()
    check_contract(model, contract)
    doc = f"An implementation of {request.scenario.name}."
    return ConformanceMachine.made("Conformance", doc, model, adapter=adapter, contract=contract, best=None)
