"""The cache of searches for the site's pages: answers.json maps a digest of a question to its answer.

A key is a digest of the models (expression graphs, instances, properties) and of the question, so another rule,
parameter, bound or limit is a cache miss. Comments, names of functions and the form of a condition do not change a
key. A cached run is a list of numbers. The interpreter replays it for each page, so an impossible run is an error. The
engines do not change a key: ``--afresh`` repeats all searches and compares the answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property, lru_cache, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from highwater.checker.base.processes import answers, cores
from highwater.checker.engines.liveness import search_with_liveness, violating_run
from highwater.checker.engines.native import search as native_search
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.model_key import KEPT, model_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult, ViolatingRun
from highwater.model.language.liveness import TracedLiveness
from highwater.model.language.model import Model

FILE = Path(__file__).with_name("answers.json")

Given = ParamSpec("Given")
Found = TypeVar("Found")
Answer = Any
"""JSON data."""


class Mode(Enum):
    """How questions are answered: from the cache or else by a search, only from the cache, or always by a search."""

    KEPT_FIRST = "kept first"
    ONLY_KEPT = "only kept"
    AFRESH = "afresh"
    SAMPLED = "sampled"
    """As KEPT_FIRST, but one question in four (always the same ones) is answered by a search."""


class NotKeptError(LookupError):
    """Raised if the cache lacks an answer and searches are not allowed. Usually the model has changed."""


@dataclass
class Answers:
    """The cached answers (key to question and answer), and the new answers."""

    kept: dict[str, tuple[str, Answer]]
    mode: Mode = Mode.KEPT_FIRST
    new: dict[str, tuple[str, Answer]] = field(default_factory=dict)

    def to(self, key: str, asked: str, ask: Callable[[], Answer]) -> Answer:
        """The answer for a key, from the cache or from ``ask()``. The text ``asked`` describes the question.

        Raises NotKeptError in the mode ONLY_KEPT if the cache has no answer.
        """
        if key in self.new:
            return self.new[key][1]
        if key in self.kept and not self._asks_again(key):
            return self.kept[key][1]
        if self.mode is Mode.ONLY_KEPT:
            raise NotKeptError(f"no cached answer, or the model has changed: {asked}")
        self.new[key] = asked, json.loads(json.dumps(ask()))
        return self.new[key][1]

    def _asks_again(self, key: str) -> bool:
        return self.mode is Mode.AFRESH or (self.mode is Mode.SAMPLED and int(key, 16) % 4 == 0)

    @property
    def changed(self) -> list[str]:
        """The questions whose new answer differs from the cached one."""
        return [
            asked for key, (asked, said) in self.new.items() if self.kept.get(key, (asked, said))[1] != said
        ]

    def text(self) -> str:
        """The text of answers.json: one answer a line, sorted by question."""
        rows = sorted((asked, key, said) for key, (asked, said) in {**self.kept, **self.new}.items())
        lines = [json.dumps([key, asked, said], ensure_ascii=False) for asked, key, said in rows]
        return "[\n" + ",\n".join(lines) + "\n]\n"


def _read() -> Answers:
    rows = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    return Answers({key: (asked, said) for key, asked, said in rows})


ANSWERS = _read()
"""The answers of this process."""


@contextmanager
def in_mode(mode: Mode) -> Iterator[Answers]:
    """While inside, questions are answered in this mode."""
    before, ANSWERS.mode = ANSWERS.mode, mode
    try:
        yield ANSWERS
    finally:
        ANSWERS.mode = before


def once(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Cache the results of a function by its positional arguments and the mode in which questions are answered."""
    found: dict[object, Found] = {}

    @wraps(function)
    def kept(*arguments: Given.args, **none: Given.kwargs) -> Found:
        key = (ANSWERS.mode, *arguments)
        if key not in found:
            found[key] = function(*arguments, **none)
        return found[key]

    return kept


def answer(what: str, models: Sequence[Model], about: object, ask: Callable[[], Answer]) -> Answer:
    """The answer to a question about ``models``, from the cache or from ``ask()``.

    ``what`` names the question, and ``about`` is plain data with its details. Both are part of the cache key.
    """
    key = blake2b(digest_size=10)
    for part in (what, json.dumps(about, sort_keys=True), *map(_key_of, models)):
        key.update(part.encode() + b"\0")
    return ANSWERS.to(key.hexdigest(), f"{what}: {'; '.join(map(_called, models))}", ask)


def search(model: Model, options: SearchOptions) -> SearchResult:
    """The cached result of the native search with liveness, without times and memory.

    Raises ValueError if there is more than one worker, because several workers can find different violating runs.
    """
    if options.workers != 1:
        raise ValueError("several workers can find another run the next time: such a run cannot be cached")
    about = {
        name: value for name, value in asdict(options).items() if value != getattr(SearchOptions(), name)
    }
    del about["workers"]
    said = answer("search", [model], about, lambda: _plain(model, searched(model, options)))
    violations = [violation(model, one) for one in said["violations"]]
    return SearchResult(**{**said, "violations": violations})


class Graph:
    """The graph of a model. It is explored when the cache lacks an answer for the first time."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def explored(self) -> Explored:
        """All states and steps, found with one worker."""
        return explore(self.model, SearchOptions(workers=1))

    @property
    def size(self) -> tuple[int, int, bool]:
        """The number of states, the number of steps, and True if the graph is complete."""
        found = answer("graph", [self.model], None, lambda: _size(self.explored))
        return found[0], found[1], found[2]

    def fair_run(self, prop: TracedLiveness) -> tuple[ViolatingRun | None, int]:
        """A fair run that violates ``prop`` (None if there is none), and the number of states that satisfy its premise.

        ``prop`` need not be a property of the model.
        """
        about = [prop.name, KEPT.liveness(self.model, prop)]
        run, premises = answer("fair run", [self.model], about, lambda: self._run(prop))
        return run and violation(self.model, run), premises

    def _run(self, prop: TracedLiveness) -> Answer:
        found = violating_run(self.explored, prop)
        return [found.violation and plain(self.model, found.violation), found.premises]


def _size(explored: Explored) -> Answer:
    return [len(explored.states), len(explored.targets), explored.complete]


def searched(model: Model, options: SearchOptions) -> SearchResult:
    """The result of the native search with liveness, without the cache."""
    return search_with_liveness(model, native_search, explore, options)


def _plain(model: Model, result: SearchResult) -> Answer:
    return {
        "distinct_states": result.distinct_states,
        "depth": result.depth,
        "stopped_by": result.stopped_by,
        "cut": {name: count for name, count in result.cut.items() if count},
        "violations": [plain(model, v) for v in result.violations],
    }


def plain(model: Model, found: ViolatingRun) -> Answer:
    """A run as JSON data: its property, the index of its initial state, its instance numbers, and its loop."""
    loop = [found.loop_start, found.case, list(found.others)] if found.loop_start is not None else []
    return [found.property, sorted(model.initial).index(found.initial), list(found.path), *loop]


def violation(model: Model, said: Answer) -> ViolatingRun:
    """The run in the JSON data ``said``: the inverse of ``plain``."""
    name, initial, path, *loop = said
    start, case, others = loop or (None, 0, ())
    return ViolatingRun(name, sorted(model.initial)[initial], tuple(path), start, case, tuple(others))


_key_of = lru_cache(maxsize=4)(model_key)


def _called(model: Model) -> str:
    declared, given = model.protocol.parameters, model.protocol.parameter_values
    other = [f"{n} {value}" for n, value in given.items() if value != declared[n].default]
    return f"{model.protocol.name} with {', '.join(other)}" if other else model.protocol.name


Part = TypeVar("Part")
Told = TypeVar("Told")


def in_order(parts: Sequence[Part], tell: Callable[[Part], Told]) -> list[Told]:
    """Compute ``tell(part)`` for each part in parallel; the results have the order of ``parts``.

    Parts are hashable, and results are plain data. The longest parts should come first. Each part runs in its own
    process, which starts with the answers so far; its new answers are merged. In the mode ONLY_KEPT the calls run one
    after another in this process.
    """
    if ANSWERS.mode is Mode.ONLY_KEPT:
        return [tell(part) for part in parts]

    def with_answers(part: Part) -> tuple[Told, dict[str, tuple[str, Any]]]:
        return tell(part), ANSWERS.new

    found = {}
    for part, (told, new) in answers(parts, with_answers, cores()):
        found[part] = told
        ANSWERS.new |= new
    return [found[part] for part in parts]


_TRACED: dict[object, tuple[Request, Model]] = {}
"""Requests are stored too, so that the ids in a key stay valid."""


def traced(request: Request) -> Model:
    """The model of a request, cached. Raises LanguageError or InputError if its text is invalid."""
    protocol = request.scenario.definition.protocol
    asked = (*request.invariants, *request.step_properties, *request.liveness, *request.goals)
    key = (protocol, *request.parameters.items(), *request.rules.items(), *map(id, asked))
    if key not in _TRACED:
        _TRACED[key] = request, request.model()
    return _TRACED[key][1]
