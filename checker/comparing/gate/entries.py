"""What a gate runs: scenarios to explore and proofs to try, each by the name that the baseline has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.checker.asking import allowed_code, scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.models.revisions import Asked
from highwater.model.language.protocol import Protocol

SCENARIO, PROOF = "scenario", "proof"


@dataclass(frozen=True)
class GateEntry:
    """One thing to run. ``scenario`` is a name, or a path relative to ``root`` where it ends in ``.toml``.

    Of a proof ``parameters`` and ``rules`` go over the scenario; ``unbounded`` says that its numbers end nowhere.
    """

    kind: str
    name: str
    scenario: str
    root: Path
    parameters: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, bool] = field(default_factory=dict)
    unbounded: bool = False

    def __post_init__(self) -> None:
        """InputError where a baseline leads to a scenario outside of its root, whose protocol would be executed."""
        if self.scenario.endswith(".toml"):
            allowed_code.refuse_foreign(self.root / self.scenario, self.root, self.name)

    @classmethod
    def of_scenario(cls, name: str, root: Path) -> GateEntry:
        """A scenario as it is written."""
        return cls(SCENARIO, name, name, root)

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name

    @property
    def argument(self) -> str:
        """The scenario as a command line would name it, from anywhere."""
        return str(self.root / self.scenario) if self.scenario.endswith(".toml") else self.scenario

    def asked(self, scenario: str | None = None) -> Asked:
        """What another process is to trace; a revision can have the scenario under another name."""
        over = {"parameters": dict(self.parameters), "rules": dict(self.rules), "proof": self.kind == PROOF}
        return {"scenario": scenario or self.scenario, **over}

    def request(self) -> Request:
        """What is asked. Raises InputError where the scenario or something that it names does not exist."""
        return Request.of(self.found(), Overrides(dict(self.parameters), dict(self.rules)))

    def found(self) -> Scenario:
        """The scenario, with paths as the baseline has them. Raises InputError where there is none."""
        if self.scenario.endswith(".toml"):
            return scenarios.read(self.root / self.scenario, self.scenario)
        return scenarios.find(self.scenario)


def rules_on_nowhere(entries: Sequence[GateEntry]) -> list[str]:
    """What to say of the rules, of the protocols of these entries, that no profile has and no entry switches on."""
    protocols: dict[str, type[Protocol]] = {}
    on: dict[str, set[str]] = {}
    for entry in entries:
        try:
            asked = entry.request()
        except InputError:  # it is told where the entry is run
            continue
        name = asked.scenario.definition.name
        protocols[name] = asked.scenario.protocol
        on.setdefault(name, set()).update(rule for rule, is_on in asked.rules.items() if is_on)
    found = []
    for name, protocol in sorted(protocols.items()):
        somewhere = on[name].union(*(profile.rules for profile in protocol.profiles.values()))
        rules = [f"{rule} ({r.source})" for rule, r in protocol.rules.items() if rule not in somewhere]
        if rules:
            found.append(f"{name}: on in no profile and in nothing that is run here: {', '.join(rules)}")
    return found
