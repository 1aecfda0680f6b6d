"""Which actions, guards and properties of two revisions have other expressions, and which were only renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from highwater.checker.comparing.models.differences import ActionChange, Comparison
from highwater.checker.comparing.models.fingerprints import Fingerprints, by_action
from highwater.checker.comparing.models.restored import RestoredModel
from highwater.model.language.model import Instance, Model
from highwater.model.language.types import Leaf


class Expressions:
    """Actions, guards and properties of both revisions side by side."""

    def __init__(
        self, old: RestoredModel, new: Model, prints: Fingerprints, found: Comparison, order: list[int] | None
    ) -> None:
        self.old, self.new, self.prints, self.found = old, new, prints, found
        self.comparable = order is not None
        if order is not None:
            for leaf, number in zip(old.own_leaves, order, strict=True):
                if leaf.path != new.leaves[number].path:
                    found.renamed.append(("field", leaf.path, new.leaves[number].path))

    def describe(self) -> None:
        """Add what differs to what was found."""
        before, after = by_action(self.old), by_action(self.new)
        pairs = self._pairs(before, after)
        for name, was in pairs.items():
            if name != was:
                self.found.renamed.append(("action", was, name))
            change = self._action(name, was, before[was], after[name])
            if change is not None:
                self.found.actions.append(change)
        self.found.actions_gone = sorted(set(before) - set(pairs.values()))
        self.found.actions_new = sorted(set(after) - set(pairs))
        self._properties()

    def _pairs(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
        """Name now to name before; an action of another name is the same where its expressions are."""
        pairs = {name: name for name in after if name in before}
        gone = {self.prints.action(own): name for name, own in before.items() if name not in after}
        for name, own in after.items():
            was = None if name in pairs else gone.pop(self.prints.action(own), None)
            if was is not None:
                pairs[name] = was
        return pairs

    def _action(
        self, name: str, was: str, before: list[Instance], after: list[Instance]
    ) -> ActionChange | None:
        if self.comparable and self.prints.action(before) == self.prints.action(after):
            old, new = (list(dict.fromkeys(g.name for i in own for g in i.guards)) for own in (before, after))
            if len(old) == len(new):
                self.found.renamed += [
                    ("guard", a, b) for a, b in zip(old, new, strict=True) if a != b and b not in old
                ]
            return None
        change = ActionChange(name, was)
        old_guards, new_guards = self._guards(before), self._guards(after)
        change.guards_gone = [g for g in old_guards if g not in new_guards]
        change.guards_new = [g for g in new_guards if g not in old_guards]
        if not self.comparable:  # other types make other expressions: only names can be told apart
            return change if change.guards_gone or change.guards_new else None
        change.guards_changed = [g for g in new_guards if g in old_guards and old_guards[g] != new_guards[g]]
        old_writes, new_writes = self._writes(before, self.old.leaves), self._writes(after, self.new.leaves)
        change.writes_changed = [
            p for p in sorted({*old_writes, *new_writes}) if old_writes.get(p) != new_writes.get(p)
        ]
        changed = {*change.guards_changed, *change.guards_new}
        places = [g.place for i in after for g in i.guards if g.name in changed]
        numbers = {leaf.path: n for n, leaf in enumerate(self.new.leaves)}
        for path in change.writes_changed:
            places += [i.writes[numbers[path]].place for i in after if numbers.get(path) in i.writes]
        change.places = sorted({p for p in places if p})
        return change

    def _guards(self, own: list[Instance]) -> dict[str, list[str]]:
        """Each guard's expressions, instance by instance."""
        found: dict[str, list[str]] = {}
        for i in own:
            for g in i.guards:
                found.setdefault(g.name, []).append(f"{self._parameters(i)}:{self.prints.node(g.node)}")
        return {name: sorted(keys) for name, keys in found.items()}

    def _writes(self, own: list[Instance], leaves: Sequence[Leaf]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for i in own:
            for leaf, w in i.writes.items():
                found.setdefault(leaves[leaf].path, []).append(
                    f"{self._parameters(i)}:{self.prints.node(w.node)}"
                )
            for c in i.checks:
                found.setdefault(leaves[c.leaf].path, []).append(
                    f"!{self._parameters(i)}:{self.prints.node(c.node)}"
                )
        return {path: sorted(keys) for path, keys in found.items()}

    @staticmethod
    def _parameters(instance: Instance) -> str:
        return repr(list(instance.parameters.values()))

    def _properties(self) -> None:
        before, after = (
            {p.name: self.prints.property(p) for p in model.properties}
            | {p.name: self.prints.step_property(p) for p in model.step_properties}
            | {p.name: self.prints.liveness(model, p) for p in model.liveness}
            for model in (self.old, self.new)
        )
        gone = {key: name for name, key in before.items() if name not in after}
        for name, key in after.items():
            if name not in before and key in gone:
                self.found.renamed.append(("property", gone.pop(key), name))
            elif name not in before:
                self.found.properties.append(f"{name} is new")
            elif self.comparable and before[name] != key:
                self.found.properties.append(f"{name} asks for something else")
        self.found.properties += [f"{name} is gone" for name in gone.values()]
