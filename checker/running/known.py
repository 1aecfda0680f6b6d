"""The model of a request as it is: one that was traced before is traced again only when somebody asks for more.

A search asks for names and for machine code, which are kept. Who follows a run to a violation, tells which step left
its type, writes text for better code or draws a page asks for instances, guards or nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from highwater.checker.asking.identity import identity_of
from highwater.checker.asking.request import Request
from highwater.checker.base.problems import InternalError
from highwater.checker.engines import kept
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Model, Outline
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.step_properties import StepProperty

_TRACED = ("instances", "properties", "step_properties", "liveness", "bounds")


def model_of(request: Request) -> Model:
    """The request's model, with its name. Raises as ``Request.model`` does; what was traced before raises nothing."""
    identity = identity_of(request)
    # The graph that liveness is asked of needs the traced protocol in any case.
    outline = None if request.liveness else kept.found(Outline, identity)
    if outline is not None:
        model = request.model(partial(KnownModel, outline))
    else:
        model = request.model()
        if not request.liveness:
            kept.keep(model.outline, identity)
    model.identity = identity
    return model


class KnownModel(Model):
    """A model of which the outline is known; the rest is traced when it is first asked for, by whatever thread."""

    def __init__(
        self,
        outline: Outline,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        self._outline, self._tracing = outline, threading.RLock()
        super().__init__(protocol, invariants, liveness, step_properties)

    def _trace(self, *asked: Any) -> None:
        self._asked = asked  # later

    @property
    def outline(self) -> Outline:
        """Names of what was traced."""
        return self._outline

    def __getattr__(self, name: str) -> Any:
        """What is not there yet: all that tracing leaves behind."""
        if name not in _TRACED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with self._tracing:
            if name not in vars(self):
                super()._trace(*self._asked)
                if super().outline != self._outline:
                    raise InternalError(f"{self.protocol.name} was traced otherwise before: use --no-cache")
        return vars(self)[name]
