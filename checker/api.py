"""The Python API of Highwater: ``check``, ``simulate``, ``explore``, and lists of scenarios and protocols."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Unpack

from highwater.checker import runner
from highwater.checker.base.problems import InputError
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.by_name import Engine
from highwater.checker.report.results import Result
from highwater.checker.runner import ProgressReporter
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.request import Request, ScenarioSettings, Subject, asked
from highwater.checker.scenarios.search import SearchOptions, SimulationOptions
from highwater.model import registry
from highwater.model.language import Protocol

if TYPE_CHECKING:
    from highwater.checker.explore.session import Session


def scenario(
    subject: Subject, *, directory: str | PathLike[str] | None = None, **settings: Unpack[ScenarioSettings]
) -> Request:
    """A request to check a scenario or a protocol, for ``check`` and ``simulate``.

    ``subject`` is one of:

    - a name from ``scenarios()`` or ``protocols()``;
    - the path of a ``.toml`` scenario or of a ``.py`` file with a protocol, relative to ``directory`` if it is given;
    - a Protocol class;
    - a Scenario or, without ``settings``, a Request.

    ``settings`` override the subject's own, like the command-line options: ``parameters`` and ``rules`` by name,
    ``profile``, ``properties``, ``deadlock``, ``symmetry``. Without ``properties``, these are checked:

    - for a scenario: the properties that the scenario lists, or all if it lists none;
    - for a built-in protocol: all properties except liveness;
    - for any other protocol: all properties.

    The request's ``model()`` is the traced protocol. Raises InputError if a name is unknown or a value is invalid.
    """
    return asked(subject, directory=directory, **settings)


def check(
    subject: Subject,
    *,
    engine: str = engines.DEFAULT,
    spark_master: str | None = None,
    workers: int | None = None,
    limit_states: int | None = None,
    limit_seconds: float | None = None,
    memory_bytes: int | None = None,
    first: bool = False,
    progress: bool = False,
    **settings: Unpack[ScenarioSettings],
) -> Result:
    """Explore every reachable state of a scenario or a protocol, as ``highwater check`` does.

    ``settings`` are those of ``scenario``. The other arguments mean the same as the command-line options. ``engine``
    is ``native``, ``interpreter`` or ``spark``. ``first`` ends the search after the level of the first violation.
    ``progress`` reports progress on standard error. Ctrl-C, or a notebook's interrupt, ends the search with the
    states found so far. Spark cannot check liveness: it leaves liveness properties out, or raises InputError if
    ``properties`` or the scenario names one.

    Raises InputError if the engine does not support the request, and LanguageError for a mistake in the protocol's
    code.
    """
    chosen = Engine(engine, spark_master)
    search = chosen.search(1)
    request = chosen.fitted(scenario(subject, **settings), settings.get("symmetry"))
    if engine == "spark" and request.liveness:
        why = "liveness needs the graph on one machine; name other properties, or another engine"
        if request.narrowed_by:
            raise InputError(f"{', '.join(p.name for p in request.liveness)}: {why}")
        request = request.safety_only(why)
    options = SearchOptions(
        workers=workers or 0,
        limit_states=limit_states,
        limit_seconds=limit_seconds,
        memory_bytes=memory_bytes,
        symmetry=request.symmetry,
        deadlock=request.deadlock,
        stop_at_first=first,
    )
    with ProgressReporter(request.scenario.name, quiet=not progress) as reporter:
        return runner.explore(request, engine, search, options, reporter)


def simulate(
    subject: Subject,
    *,
    walks: int = 10_000,
    depth: int = 100,
    seed: int = 0,
    workers: int | None = None,
    limit_seconds: float | None = None,
    progress: bool = False,
    **settings: Unpack[ScenarioSettings],
) -> Result:
    """Walk at random through a scenario that is too large to explore, as ``highwater simulate`` does.

    Walks prove nothing, and do not check liveness. Equal values of ``seed`` give equal walks. ``depth`` is the largest
    number of states in a walk. The other arguments are those of ``check``.
    """
    request = scenario(subject, **settings).for_walks()
    options = SimulationOptions(walks, depth, seed, workers or 0, limit_seconds, request.deadlock)
    return runner.walk(request, options, quiet=not progress)


def explore(subject: Subject, **settings: Unpack[ScenarioSettings]) -> Session:
    """A session that steps through the states of a scenario or protocol, like ``highwater explore`` without a browser.

    The arguments are those of ``scenario``. A session takes steps, and evaluates conditions in states. A ``Path``
    names a state. Raises InputError like ``scenario``, and LanguageError for a mistake in the protocol's code.
    """
    from highwater.checker.explore.session import Session

    request = scenario(subject, **settings).without_goals()
    return Session(request.without_symmetry().model())


def protocols() -> list[str]:
    """The names of the protocols that come with Highwater."""
    return list(registry.NAMES)


def protocol(name: str) -> type[Protocol]:
    """The class of the protocol with this name. Raises InputError if there is none.

    Its attributes ``parameters``, ``rules`` and ``profiles`` list what a request can set.
    """
    return catalogue.load(name).protocol


def scenarios(*, standard: bool = False) -> dict[str, str]:
    """The titles of the scenarios that come with Highwater, by scenario name.

    With ``standard``, only the scenarios that ``highwater check`` explores without arguments.
    """
    return {
        name: title
        for name, (title, is_standard) in scenario_files.titles().items()
        if is_standard or not standard
    }
