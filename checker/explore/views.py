"""What the page asks of a session, as data: a run to a state, a way to another one, what another rule would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.problems import InputError
from highwater.checker.explore.session import Path, Session, pytest_of
from highwater.checker.telling.page.content import content
from highwater.checker.telling.page.shown import ShownRun, said, taken
from highwater.model.language.model import Model

SEARCH_SECONDS = 60.0
"""A search for a state ends then."""
WATCHED = 20
"""Expressions that are watched at a time."""

Arguments = Mapping[str, str]


class Answers:
    """The answers for one scenario, each a function of what the page asks."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._sessions: dict[frozenset[str], Session] = {}
        self.session = self._with(frozenset())
        self.answers: dict[str, Callable[[Arguments], dict[str, Any]]] = {
            "run": self.run,
            "nearest": self.nearest,
            "random": self.random,
            "rule": self.rule,
            "test": self.test,
        }

    def _with(self, switched: frozenset[str]) -> Session:
        """The session in which these rules are the other way round."""
        if switched not in self._sessions:
            rules = {name: not self.request.rules[name] for name in switched}
            if switched:
                overrides = Overrides(
                    dict(self.request.parameters),
                    {**self.request.rules, **rules},
                    profile=self.request.profile,
                )
                model = Request.of(self.request.scenario, overrides).without_goals().model()
            else:
                model = self.request.model()
            self._sessions[switched] = Session(model)
        return self._sessions[switched]

    def _path(self, arguments: Arguments) -> Path:
        return Path.parse(arguments.get("path") or "0")

    def run(self, arguments: Arguments) -> dict[str, Any]:
        """The run to the state of ``path``, what is false there, and the expressions of ``watch``, one a line."""
        path = self._path(arguments)
        states = self.session.states(path)
        data = content("", [_shown(self.session.model, path)])
        watched = [line for line in arguments.get("watch", "").splitlines() if line.strip()][:WATCHED]
        return {
            "run": data["runs"][0],
            "rules": data["rules"],
            "path": str(path),
            "violated": [*self.session.violated(states[-1]), *self.session.broken(states)],
            "initial": len(self.session.model.initial),
            "watched": [[text, *self._watched(states, text)] for text in watched],
        }

    def _watched(self, states: list[Any], text: str) -> tuple[bool, list[str]]:
        """Whether the text could be read, and its value in each of the states that are shown; else what is wrong."""
        try:
            values = [self.session.said(state, text) for state in states]
        except InputError as wrong:
            return False, [str(wrong)]
        return True, values

    def nearest(self, arguments: Arguments) -> dict[str, Any]:
        """The nearest state from ``path`` on ``where`` a condition holds."""
        options = SearchOptions(stop_at_first=True, limit_seconds=SEARCH_SECONDS)
        found = self.session.nearest(self._path(arguments), arguments.get("where", ""), options)
        return {
            "path": None if found.path is None else str(found.path),
            "states": found.result.distinct_states,
            "complete": found.result.complete,
            "seconds": round(found.result.seconds, 3),
        }

    def random(self, arguments: Arguments) -> dict[str, Any]:
        """``steps`` random steps on from ``path``, by a ``seed``."""
        steps, seed = (_number(arguments, name, default) for name, default in (("steps", 10), ("seed", 0)))
        return {"path": str(self.session.walk(self._path(arguments), steps, seed))}

    def rule(self, arguments: Arguments) -> dict[str, Any]:
        """What could be done in the state of ``path``, and what not, were the rule ``name`` the other way round."""
        name = arguments.get("name", "")
        if name not in self.request.rules:
            raise InputError(f"there is no rule {name!r}")
        other = self._with(frozenset({name}))
        state = self.session.states(self._path(arguments))[-1]
        if [leaf.path for leaf in other.model.leaves] != [leaf.path for leaf in self.session.model.leaves]:
            return {"name": name, "comparable": False, "more": [], "less": [], "otherwise": []}
        here = {str(i): n for n, i in enumerate(self.session.model.instances)}
        there = {str(i): n for n, i in enumerate(other.model.instances)}
        can = {str(self.session.model.instances[n]) for n in self.session.possible(state)}
        could = {str(other.model.instances[n]) for n in other.possible(state)}
        both = can & could
        return {
            "name": name,
            "comparable": True,
            "more": [said(other.model.instances[there[i]]) for i in there if i in could - can],
            "less": [said(self.session.model.instances[here[i]]) for i in here if i in can - could],
            "otherwise": [
                said(self.session.model.instances[here[i]])
                for i in here
                if i in both and self.session.after(state, here[i]) != other.after(state, there[i])
            ],
        }

    def test(self, arguments: Arguments) -> dict[str, Any]:
        """The path as the text of a test."""
        name = self.request.scenario.name
        return {"text": pytest_of(self.session, self._path(arguments), name, self.changed)}

    @property
    def changed(self) -> dict[str, Mapping[str, Any]]:
        """The parameters and the rules that are other than the scenario's own."""
        own = Request.of(self.request.scenario, Overrides())
        return {
            "parameters": {k: v for k, v in self.request.parameters.items() if own.parameters[k] != v},
            "rules": {k: v for k, v in self.request.rules.items() if own.rules[k] != v},
        }


def _shown(model: Model, path: Path) -> ShownRun:
    return ShownRun("", "", tuple(taken(model, model.initial[path.initial], path.steps)))


def _number(arguments: Arguments, name: str, default: int) -> int:
    text = arguments.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError(f"{name}: {text[:40]!r} is no number")
    return int(text)
