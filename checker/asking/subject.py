"""What a test is about, in the ways in which one names it: a scenario, a protocol, or a file of either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from highwater.checker.asking import catalogue, scenarios
from highwater.checker.asking.catalogue import Definition
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.base.problems import InputError
from highwater.model import registry
from highwater.model.language.protocol import Protocol

Subject = str | PathLike[str] | type[Protocol] | Scenario | Request


class ScenarioSettings(TypedDict, total=False):
    """What can be set over a scenario or a protocol; each means what the option of the command line does."""

    parameters: Mapping[str, int] | None
    rules: Mapping[str, bool] | None
    profile: str | None
    properties: Iterable[str]
    deadlock: bool | None
    symmetry: bool | None
    outside: bool


def asked(
    subject: Subject, *, directory: str | PathLike[str] | None = None, **settings: Unpack[ScenarioSettings]
) -> Request:
    """What is to be checked: a scenario or a protocol, and over it what is set here.

    A text is the path of a ``.toml`` scenario or of a ``.py`` file with a protocol (relative to ``directory``, where
    that is given), else the name of a protocol (``replication.controller``) or of a scenario. Raises InputError
    where there is no such thing, or a name or a value does not fit it, TypeError for a setting that there is not.
    """
    if unknown := settings.keys() - ScenarioSettings.__annotations__.keys():
        raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
    overrides = Overrides(
        parameters=dict(settings.get("parameters") or {}),
        rules=dict(settings.get("rules") or {}),
        profile=settings.get("profile"),
        properties=tuple(settings.get("properties", ())),
        symmetry=settings.get("symmetry"),
        deadlock=settings.get("deadlock"),
        outside=settings.get("outside", False),
    )
    if isinstance(subject, Request):
        if overrides != Overrides():
            raise InputError(
                f"{subject.scenario.name}: set over it what is to be set where it is first named"
            )
        return subject
    if isinstance(subject, type):
        subject = scenarios.bare(_definition(subject))
    if not isinstance(subject, Scenario):
        subject = _named(str(subject), Path(directory) if directory is not None else Path())
    return Request.of(subject, overrides)


def _named(text: str, directory: Path) -> Scenario:
    if text.endswith(".toml"):
        return scenarios.read(directory / text, text)
    if text.endswith(".py"):
        return scenarios.bare(catalogue.load_file(directory / text))
    if text in registry.NAMES:
        return scenarios.bare(catalogue.load(text))
    return scenarios.find(text)


def _definition(protocol: type[Protocol]) -> Definition:
    """A class with what must hold of it: of one that comes with the checker that stands in ``invariants``."""
    package = protocol.__module__.removeprefix("highwater.model.")
    for name in registry.NAMES if package != protocol.__module__ else ():
        if (found := catalogue.load(name)).protocol is protocol:
            return found
    name = protocol.name or protocol.__name__
    return Definition.of(name, protocol)
