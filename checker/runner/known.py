"""Models that an earlier run has traced. They are traced again only when needed.

A search needs only names and machine code, which are cached. Tracing is needed to replay a counterexample, to name a
step that left its type, to compile optimized code, and to draw a page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial

from highwater.checker.base.problems import InternalError
from highwater.checker.engines import cache
from highwater.checker.scenarios.model_key import request_key
from highwater.checker.scenarios.request import Request
from highwater.model.language.graph import Node
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Instance, Model, Outline, Property, condition_of_steps
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.step_properties import StepProperty, TracedStepProperty


def model_of(request: Request) -> Model:
    """The request's model, with its cache key. Raises the errors of ``Request.model`` if the model is not cached.

    Only outlines of models without liveness properties are cached; a new outline is stored.
    """
    identity = request_key(request)
    # Liveness needs the explored graph, and that needs the traced protocol.
    outline = None if request.liveness else cache.found(Outline, identity)
    if outline is not None:
        model = request.model(partial(KnownModel, outline))
    else:
        model = request.model()
        if not request.liveness:
            cache.keep(model.outline, identity)
            cache.keep(InstanceChoices.of(model), identity)
    model.identity = identity
    return model


@dataclass(frozen=True)
class InstanceChoices:
    """For each instance of a model, the parameter values of its action, as text."""

    texts: tuple[str, ...]

    @classmethod
    def of(cls, model: Model) -> InstanceChoices:
        """The parameter values of a traced model's instances."""
        return cls(tuple(repr([i.parameters[p] for p in i.action.domains]) for i in model.instances))


class KnownModel(Model):
    """A model with a cached outline. Everything else is traced on first use, in any thread.

    To replay a run, only its instances are traced. The model has no liveness properties.
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
        self._traced: Model | None = None
        self._by_choice: dict[tuple[str, str], list[Instance]] = {}
        super().__init__(protocol, invariants, liveness, step_properties)

    def _trace(self) -> None:
        """Do nothing, because this model is traced later."""

    @property
    def outline(self) -> Outline:
        """The cached names of instances, bounds and properties."""
        return self._outline

    @cached_property
    def _choices(self) -> list[tuple[str, str]]:
        """For each instance its action's name and parameter values; empty if they are not cached."""
        found = cache.found(InstanceChoices, self.identity)
        return [] if found is None else list(zip(self._outline.instances, found.texts, strict=False))

    def stated(self, name: str) -> Invariant | StepProperty:
        """The declaration of the invariant or step property with this name."""
        of_steps = (p for p in self._asked[2] if p.name == name and name in self._outline.step_properties)
        return next(of_steps, None) or super().stated(name)

    def step_condition(self, name: str) -> Node:
        """The condition of one step property, computed without tracing instances."""
        if self._traced is not None:
            return self._traced.step_condition(name)
        with self._tracing:
            return condition_of_steps(self, next(p for p in self._asked[2] if p.name == name))[0]

    def instance(self, number: int) -> Instance:
        """The instance with this number. If its parameter values are cached, no other instance is traced."""
        if self._traced is not None or number >= len(self._choices):
            return self.instances[number]
        asked = name, text = self._choices[number]
        with self._tracing:
            if asked not in self._by_choice:
                action = next(a for a in self.actions if a.name == name)
                chosen = (c for c in self.choices(action) if repr([plain for _, plain in c.values()]) == text)
                self._by_choice[asked] = [i for c in chosen for i in self._trace_choice(action, c)]
        own = self._by_choice[asked]
        if len(own) != self._choices.count(asked):  # the text of a parameter value can depend on the process
            return self.instances[number]
        return own[number - self._choices.index(asked)]

    def _whole(self) -> Model:
        """The completely traced model. Raises InternalError if its outline differs from the cached one."""
        with self._tracing:
            if self._traced is None:
                traced = Model(self.protocol, *self._asked)
                if traced.outline != self._outline:
                    raise InternalError(f"{self.protocol.name} was traced otherwise before: use --no-cache")
                self._traced = traced
        return self._traced

    @cached_property
    def instances(self) -> list[Instance]:
        """All instances. The first access traces them."""
        return self._whole().instances

    @cached_property
    def properties(self) -> list[Property]:
        """The traced invariants, computed without tracing instances."""
        with self._tracing:
            return self._trace_invariants(self._asked[0])

    @cached_property
    def step_properties(self) -> list[TracedStepProperty]:
        """All traced step properties. The first access traces the whole model."""
        return self._whole().step_properties

    @cached_property
    def bounds(self) -> list[str]:
        """The names of the bounds at which steps can be pruned."""
        return self._whole().bounds
