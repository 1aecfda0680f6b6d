"""The findings in Kafka trunk of 2024-10: scenarios, and the rules that close them (docs/kafka-4.2.md)."""

from __future__ import annotations

from dataclasses import dataclass

from docs.pages.kept import once, search, traced
from highwater.checker.report.counterexample import Counterexample, follow_all
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language.model import Model

PLACE = "replication/trunk-"

LARGE = frozenset({"re-elected-leader"})
"""Those whose complete search, with the closing rules on, has tens of millions of states."""


@dataclass(frozen=True)
class Finding:
    """A scenario, the kind of gap, what closes it, and what the first phase of KIP-966 shows without.

    ``closes`` are smallest sets: no smaller part of one closes the finding. ``off`` are the rules without which
    the profile kip_966_first_phase shows it too, within the same budgets; with all its rules it does not, unless
    ``off`` is empty.
    """

    name: str
    kind: str
    closes: tuple[tuple[str, ...], ...]
    off: tuple[str, ...] = ()


_MIN_ISR = "min_isr_change_empties_elr"
_REASSIGNMENT = ("elr_within_replicas", "reassignment_needs_min_isr")

FINDINGS = (
    Finding("min-isr", "code", ((_MIN_ISR,),), (_MIN_ISR,)),
    Finding("min-isr-loss", "code", ((_MIN_ISR,),), (_MIN_ISR,)),
    Finding("min-isr-election", "code", (("elr_follows_election",),), ("elr_follows_election",)),
    Finding("reassignment", "code", tuple((rule,) for rule in _REASSIGNMENT), _REASSIGNMENT),
    Finding("reassignment-loss", "code", tuple((rule,) for rule in _REASSIGNMENT), _REASSIGNMENT),
    Finding("clean-restart", "code", (("clean_registration",),), ("clean_registration",)),
    Finding(
        "clean-restart-loss",
        "code",
        (("clean_registration",), ("unclean_recovery", "last_known_elr")),
        ("clean_registration",),
    ),
    Finding(
        "fenced-leader",
        "code",
        (("last_known_leader_unfenced",), ("unclean_recovery",)),
        ("last_known_leader_unfenced",),
    ),
    Finding(
        "forgotten-proposal",
        "implementation",
        (("proposal_outlives_known_metadata",),),
        ("proposal_outlives_known_metadata",),
    ),
    Finding(
        "re-elected-leader",
        "implementation",
        (("re_election_forgets_fetches",),),
        ("re_election_forgets_fetches",),
    ),
    Finding(
        "two-crashes", "proposal", (("unclean_recovery", "last_known_elr", "fenced_before_registration"),)
    ),
)
"""In the order of the page."""


@once
def scenario(name: str) -> Scenario:
    """A finding's scenario."""
    return scenario_files.find(PLACE + name)


@dataclass(frozen=True)
class Found:
    """A search, and a shortest run to each property's violation; the shortest come first."""

    model: Model
    result: SearchResult
    examples: tuple[Counterexample, ...]


@once
def found(name: str) -> Found:
    """The search of a finding's scenario; with one worker, so that it is the same every time."""
    return _search(name, Overrides())


@once
def closed(name: str, rules: tuple[str, ...]) -> SearchResult:
    """The search of a finding's scenario with more rules on; unclean recovery, where it is on, is explored."""
    recovery = {"recovery": 1} if "unclean_recovery" in rules else {}
    return _search(name, Overrides(recovery, dict.fromkeys(rules, True))).result


@once
def proposed(name: str, profile: str, off: tuple[str, ...] = ()) -> SearchResult:
    """The same budgets under a profile of the proposal, with some of its rules off."""
    recovery = {"recovery": 1} if profile == "kip_966" else {}
    return _search(name, Overrides(recovery, dict.fromkeys(off, False), profile)).result


def _search(name: str, overrides: Overrides) -> Found:
    model = traced(Request.of(scenario(name), overrides))
    result = search(model, SearchOptions(workers=1))
    return Found(model, result, follow_all(model, result.violations))
