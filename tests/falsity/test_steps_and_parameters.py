"""The false part of a property of steps has both states; of a property with parameters, the values of this run."""

from __future__ import annotations

from typing import Any

from highwater.checker.telling.falsity import false_part
from highwater.model.language import Int, Model, Protocol, State, Struct, action, implies, step_property


@step_property("S")
def grows(m: Any, before: State, after: State) -> Any:
    """The count grows by one."""
    return implies(after.n != before.n, after.n == before.n + 1)


def below(m: Any, s: State, limit: Any) -> Any:
    """The count stays below a limit."""
    return s.n < limit


class Counter(Protocol):
    """Counts."""

    step_properties = (grows,)

    def define(self) -> Struct:
        return Struct("State", n=Int(0, 5))

    @action("A")
    def count(self, s: State) -> None:
        """Count."""
        s.next.n = s.n


def leaves(
    *states: tuple[int, ...], **asked: Any
) -> list[tuple[str, bool, tuple[tuple[str, str], ...]]] | None:
    function = asked.pop("function", grows.function)
    part = false_part(Model(Counter()), function, *states, **asked)
    return (
        None if part is None else [(leaf.text, leaf.holds, tuple(leaf.values)) for leaf, _ in part.leaves()]
    )


def test_both_states_are_told_by_their_names() -> None:
    found = leaves((2,), (4,))
    assert found is not None
    assert [(text, holds) for text, holds, _ in found] == [
        ("after.n != before.n", True),
        ("after.n == before.n + 1", False),
    ]
    assert found[1][2] == (("after.n", "4"), ("before.n + 1", "3"), ("before.n", "2"))


def test_a_good_step_has_no_false_part() -> None:
    assert leaves((2,), (3,)) is None
    assert leaves((2,), (2,)) is None


def test_one_state_needs_no_name_and_parameters_have_their_values() -> None:
    found = leaves((4,), function=below, chosen={"limit": 3})
    assert found == [("n < limit", False, (("n", "4"), ("limit", "3")))]
    assert leaves((2,), function=below, chosen={"limit": 3}) is None
