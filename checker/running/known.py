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
from highwater.model.language.model import Instance, Model, Outline
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.step_properties import StepProperty

_TRACED = ("instances", "properties", "step_properties", "bounds")


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
    """A model of which the outline is known; the rest is traced when it is first asked for, by whatever thread.

    Of a run the actions that it takes are traced, each by itself. Liveness is not asked of such a model.
    """

    def __init__(
        self,
        outline: Outline,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        self._outline, self._tracing = outline, threading.RLock()
        self._of_actions: dict[str, list[Instance]] = {}
        super().__init__(protocol, invariants, liveness, step_properties)

    def _trace(self, *asked: Any) -> None:
        self._asked, self.liveness = asked, []

    @property
    def outline(self) -> Outline:
        """Names of what was traced."""
        return self._outline

    def instance(self, number: int) -> Instance:
        """The instance of this number."""
        if "instances" in vars(self):
            return self.instances[number]
        name, names = self._outline.instances[number], self._outline.instances
        with self._tracing:
            if name not in self._of_actions:
                action = next(a for a in self.actions if a.name == name)
                self._of_actions[name] = list(self._trace_action(action))
        own = self._of_actions[name]
        self._compare(len(own), names.count(name))
        return own[number - names.index(name)]

    def __getattr__(self, name: str) -> Any:
        """What is not there yet: the invariants, or all that tracing leaves behind."""
        if name not in _TRACED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with self._tracing:
            if name not in vars(self) and name == "properties":
                self.properties = self._trace_invariants(self._asked[0])
            elif name not in vars(self):
                super()._trace(*self._asked)
                self._compare(super().outline, self._outline)
        return vars(self)[name]

    def _compare(self, now: object, before: object) -> None:
        if now != before:
            raise InternalError(f"{self.protocol.name} was traced otherwise before: use --no-cache")
