"""Counterexamples: a run to a state that violates a property, told step by step.

An engine answers with numbers. Here the interpreter takes the run again, so that what is told has been
checked by the reference, whichever engine found it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from checker import words
from checker.search import DEADLOCK, Violation
from model.language.interpreter import Interpreter
from model.language.model import Model

DEADLOCK_MEANING = "In every state some step can be taken."


class BrokenRunError(RuntimeError):
    """An engine's run is none, or does not violate the property: a defect of the engine."""


@dataclass(frozen=True)
class Step:
    """A state of the run and the step that led to it; ``changes`` is path to (value before, value after)."""

    action: str
    parameters: Mapping[str, Any]
    sentence: str
    changes: Mapping[str, tuple[Any, Any]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Counterexample:
    """A property, its source and meaning, and the run; the first step is the initial state."""

    name: str
    source: str
    meaning: str
    steps: tuple[Step, ...]

    @property
    def depth(self) -> int:
        """The violating state's level; initial states have level 1."""
        return len(self.steps)


def follow(model: Model, interpreter: Interpreter, violation: Violation) -> Counterexample:
    """Take a run again with the interpreter; BrokenRunError where it is not a run to a violation."""
    state = violation.initial
    if state not in model.initial:
        raise BrokenRunError(f"the run to a violation of {violation.property} starts in no initial state")
    steps = [Step("initial", {}, "initial state", {}, model.decode(state))]
    for number in violation.path:
        instance = model.instances[number]
        after = None if interpreter.refusals(state, instance) else interpreter.step(state, number).state
        if after is None:
            raise BrokenRunError(
                f"the run to a violation of {violation.property} takes {instance}, which is not enabled"
            )
        sentence = instance.sentence if instance.action.says else str(instance)
        changes = interpreter.changes(state, after)
        steps.append(
            Step(instance.action.name, dict(instance.parameters), sentence, changes, model.decode(after))
        )
        state = after
    if violation.property == DEADLOCK:
        if any(True for _ in interpreter.steps(state)):
            raise BrokenRunError("the run ends in a state that is no deadlock")
        return Counterexample(DEADLOCK, "", DEADLOCK_MEANING, tuple(steps))
    if violation.property not in interpreter.violated(state):
        raise BrokenRunError(f"the run ends in a state that does not violate {violation.property}")
    found = model.property(violation.property).invariant
    return Counterexample(found.name, found.source, found.meaning, tuple(steps))


def follow_all(model: Model, violations: Iterable[Violation]) -> tuple[Counterexample, ...]:
    """Take all runs again; the shortest come first, and of equal ones those of the model's first property."""
    violations = list(violations)
    if not violations:
        return ()
    interpreter = Interpreter(model)
    order = {p.name: i for i, p in enumerate(model.properties)}
    violations.sort(key=lambda v: (v.depth, order.get(v.property, len(order))))
    return tuple(follow(model, interpreter, violation) for violation in violations)


def tell(
    model: Model, example: Counterexample, *, full: bool = False, width: int | None = None
) -> Iterator[str]:
    """The lines of a counterexample: the property, one line a step, and the state that violates it.

    With a ``width`` (a terminal's) what changed is folded below its step; without one a step is one line.
    ``full`` adds the whole state after each step.
    """
    type = model.protocol.state
    rule = f" ({example.source})" if example.source else ""
    title = click.style(f"{example.name}{rule}", fg="red", bold=True)
    yield f"{title} is violated at depth {example.depth}, after {_count(example.depth - 1, 'step')}."
    yield from _fold(f"It says: {example.meaning}", "  ", width)
    yield ""
    longest = min(56, max(len(step.sentence) for step in example.steps))
    for number, step in enumerate(example.steps, 1):
        head = f"{number:4}  {step.sentence}"
        if number > 1:
            told = "; ".join(_changes(type, step)) or "changes nothing"
            colour = "cyan" if step.changes else "yellow"
            if width is not None and max(len(head), longest + 6) + 2 + len(told) > width:
                yield head
                yield from (click.style(line, fg=colour) for line in _fold(told, " " * 10, width))
            else:
                yield f"{head:{longest + 6}}  {click.style(told, fg=colour)}"
        else:
            yield head
        if full:
            yield from _state(type, step.state, " " * 10, width)
    yield ""
    yield f"The state that violates {example.name}:"
    yield from _state(type, example.steps[-1].state, "  ", width)


def terminal_width() -> int:
    """The columns of the terminal."""
    return shutil.get_terminal_size().columns


def _changes(type: Any, step: Step) -> Iterator[str]:
    """What changed, fields of one struct together: ``quorum: leader none → 0, leader_epoch none → 0``."""
    groups: dict[str, list[str]] = {}
    for path, (before, after) in step.changes.items():
        place, _, name = path.rpartition(".")
        inner = words.at(type, path)
        groups.setdefault(place, []).append(f"{name} {words.say(inner, before)} → {words.say(inner, after)}")
    for place, texts in groups.items():
        if not place:
            yield from texts
        elif len(texts) == 1:
            yield f"{place}.{texts[0]}"
        else:
            yield f"{place}: {', '.join(texts)}"


def _state(type: Any, state: Any, indent: str, width: int | None) -> Iterator[str]:
    pairs = list(words.lines(type, state))
    longest = max((len(path) for path, _ in pairs), default=0)
    for path, text in pairs:
        head = f"{indent}{path:{longest}}  "
        yield from _fold(text, head, width, " " * len(head))


def _fold(text: str, head: str, width: int | None, indent: str | None = None) -> list[str]:
    if width is None:
        return [head + text]
    import textwrap

    following = head if indent is None else indent
    room = max(width, len(head) + 20)
    return textwrap.wrap(text, room, initial_indent=head, subsequent_indent=following, break_on_hyphens=False)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
