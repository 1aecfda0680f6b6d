"""What a request checks of the properties that its protocol declares, what it does not check, and why.

The verdict, ``highwater show`` and the keys ``checked`` and ``not_checked`` of JSON all report this one account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from highwater.checker.asking.catalogue import Definition
from highwater.checker.asking.search import DEADLOCK
from highwater.model.language.protocol import Conditional

_KINDS = {
    "invariants": ("invariant", "invariants"),
    "step_properties": ("step property", "step properties"),
    "liveness": ("liveness property", "liveness properties"),
    "helpers": ("helper", "helpers"),
}
"""Attributes of a Definition that list what must hold; in words, one and several."""
_BY_NAME = ("helpers",)
"""Kinds that are checked only where a scenario or an option names them."""
_RULE, _RULES_OFF = "the rule ", "their rules are off"
_NAMED = 2
"""Up to this many properties of a kind are named in a sentence; more are counted."""


@dataclass(frozen=True)
class NotChecked:
    """A declared property that is not checked: ``kind`` is a key of ``_KINDS``, ``why`` completes "not checked: …"."""

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class Checked:
    """The names of the properties that are checked, by kind, and the declared ones that are not.

    A helper that is checked stands among the invariants or the step properties.
    """

    invariants: tuple[str, ...]
    step_properties: tuple[str, ...]
    liveness: tuple[str, ...]
    deadlock: bool
    left_out: tuple[NotChecked, ...]

    def undecided(self, liveness: Collection[str], why: str) -> Checked:
        """The same where these liveness properties were not reached."""
        if not liveness:
            return self
        left = tuple(NotChecked(name, "liveness", why) for name in self.liveness if name in liveness)
        decided = tuple(name for name in self.liveness if name not in liveness)
        return replace(self, liveness=decided, left_out=(*left, *self.left_out))

    def without(self, names: Collection[str]) -> Checked:
        """The same where these are checked elsewhere: they are not listed as left out."""
        return replace(self, left_out=tuple(n for n in self.left_out if n.name not in names))

    def as_json(self) -> dict[str, object]:
        """The keys ``checked`` and ``not_checked`` of a result."""
        return {
            "checked": {
                "invariants": list(self.invariants),
                "step_properties": list(self.step_properties),
                "liveness": list(self.liveness),
                DEADLOCK: self.deadlock,
            },
            "not_checked": [{"property": n.name, "kind": n.kind, "why": n.why} for n in self.left_out],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Checked:
        """What ``as_json`` writes, read back."""
        kinds, left = said["checked"], said["not_checked"]
        return cls(
            tuple(kinds["invariants"]),
            tuple(kinds["step_properties"]),
            tuple(kinds["liveness"]),
            kinds[DEADLOCK],
            tuple(NotChecked(n["property"], n["kind"], n["why"]) for n in left),
        )

    @property
    def sentence(self) -> str:
        """One line: how many properties of each kind are checked, and what is not checked, with the reason."""
        return "; ".join(filter(None, (f"checked: {_counted([self])}", self.rest)))

    @property
    def rest(self) -> str:
        """The part of the sentence about what is not checked; "" where that is nothing."""
        left = "; ".join(_left_out(self.left_out))
        return f"not checked: {left}" if left else ""


def left_out(
    definition: Definition,
    absent: Callable[[Conditional], str],
    checked: Collection[str],
    withheld: Mapping[str, str],
    narrowed_by: str,
) -> Iterator[NotChecked]:
    """The declared properties that are not among ``checked``.

    ``withheld`` gives a reason by name; ``narrowed_by`` is what names the properties to check, "" where nothing does.
    """
    for kind in _KINDS:
        for stated in getattr(definition, kind):
            if stated.name in checked:
                continue
            if stated.name in withheld:
                why = withheld[stated.name]
            elif kind in _BY_NAME:
                why = "checked only by name"
            elif why := absent(stated):
                pass
            else:
                why = f"not named by {narrowed_by}"
            yield NotChecked(stated.name, kind, why)


def total(of: Sequence[Checked]) -> str:
    """One line for several scenarios: how many properties they check, and how many of them leave some out."""
    some = sum(any(n.kind not in _BY_NAME for n in one.left_out) for one in of)
    rest = f"; {some} of them leave declared properties out (--verbose names them)" if some else ""
    return f"checked in {len(of)} scenarios: {_counted(of)}{rest}"


def _counted(of: Iterable[Checked]) -> str:
    counts: Counter[str] = Counter()
    for one in of:
        for kind in ("invariants", "step_properties", "liveness"):
            counts[kind] += len(getattr(one, kind))
        counts[DEADLOCK] += one.deadlock
    said = [f"{counts[kind]:,} {_KINDS[kind][counts[kind] != 1]}" for kind in _KINDS if counts[kind]]
    return ", ".join(said + [DEADLOCK] * bool(counts[DEADLOCK])) or "no property"


def _left_out(left: Sequence[NotChecked]) -> Iterator[str]:
    """What is not checked, by reason; the kinds in the order of ``_KINDS``."""
    off = dict.fromkeys(n.why for n in left if n.why.startswith(_RULE))
    whys = {n: _RULES_OFF if n.why in off and len(off) > 1 else n.why for n in left}
    for why in dict.fromkeys(whys.values()):
        groups = groupby((n for n in left if whys[n] == why), key=lambda n: n.kind)
        said = []
        for kind, members in groups:
            names = [n.name for n in members]
            one, many = _KINDS[kind]
            few = len(names) <= _NAMED
            said.append(
                f"{one if len(names) == 1 else many} {' and '.join(names)}" if few else f"{len(names)} {many}"
            )
        yield f"{', '.join(said)} ({why})"
