"""Fixtures of the command's tests, and the counter's scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from highwater.checker.base.processes import Pool
from highwater.checker.comparing import mutation
from highwater.checker.comparing.gate import baseline

COUNTER = '''
from highwater.model.language import Int, Parameter, Profile, Protocol, Rule, Struct
from highwater.model.language import action, implies, invariant, require

@invariant("C1")
def below_seven(m, s):
    """The count stays below seven."""
    return s.count < 7

@invariant("C2", rule="wraps")
def even_is_small(m, s):
    """An odd thing to ask."""
    return implies(s.count == 9, s.count < 3)

class Counter(Protocol):
    """Counts."""

    name = "counter"
    parameters = {"top": Parameter(5, 1, 9, "the last count"), "size": Parameter(9, 1, 9, "of the type")}
    rules = {"wraps": Rule("C3", "After the last count comes 0."), "skips": Rule("C4", "Steps of two, too.")}
    profiles = {"plain": Profile.of("one by one"), "round": Profile.of("and over again", "wraps")}
    invariants = (below_seven, even_is_small)

    def define(self):
        return Struct("State", count=Int(0, self.p.size))

    def initial(self):
        return [{"count": 0}]

    @action("C5", says="count one")
    def increase(self, s):
        require("the top is not reached", s.count < self.p.top)
        s.next.count = s.count + 1

    @action("C6", rule="skips")
    def skip(self, s):
        require("the top is not near", s.count + 1 < self.p.top)
        s.next.count = s.count + 2

    @action("C7", rule="wraps", says="start again")
    def wrap(self, s):
        require("the top is reached", s.count == self.p.top)
        s.next.count = 0

    @action("C8", rule="wraps")
    def rest(self, s):
        require("nothing is counted", s.count == 0)
        s.next.count = s.count
'''


Write = Callable[..., Path]
"""What the fixture ``counter`` gives."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _in_forks() -> Iterator[None]:
    """The processes of gate and mutate are forks of this one: new ones would import everything again."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (baseline, mutation):
            patch.setattr(module, "Pool", partial(Pool, copied=True))
        yield


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def counter(tmp_path: Path) -> Write:
    """Write a scenario of the counter, with its protocol next to it; returns the scenario's path."""

    def write(text: str = "", *, name: str = "counter.toml", protocol: str = COUNTER) -> Path:
        (tmp_path / "counter.py").write_text(protocol)
        path = tmp_path / name
        path.write_text(text if "protocol" in text else f'protocol = "counter.py"\nprofile = "plain"\n{text}')
        return path

    return write
