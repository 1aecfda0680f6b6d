"""Settings that decide about losses, as the metadata log has them: each change with its level, offset and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
TOPIC, BROKER, CLUSTER = "topic", "broker", "cluster"
"""Levels of a setting: of one topic, of one node, and the default of all."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One record of a setting, at an offset of the metadata log and a time (ms since the epoch).

    ``name`` is Kafka's. ``resource`` is the topic or the node that it is of, empty for the cluster's default.
    ``before`` and ``value`` are what is set at this level, as the log has it; None: nothing, or not known.
    """

    position: int
    time: int
    name: str
    level: str
    resource: str
    before: str | None
    value: str | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SettingChange:
        """From JSON."""
        return cls(
            data["offset"], data["time"], data["name"], data["level"], data["resource"], data["before"], data["value"]
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "offset": self.position,
            "time": self.time,
            "name": self.name,
            "level": self.level,
            "resource": self.resource,
            "before": self.before,
            "value": self.value,
        }


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A change of a setting as one partition has it: what is in force after it, None where the log does not say.

    ``min_isr`` is the effective one (966.2).
    """

    change: SettingChange
    min_isr: int | None
    unclean_election: bool | None


@dataclass(frozen=True, slots=True)
class Resized:
    """A change of min.insync.replicas that met a partition under min ISR; the effective ones (966.2)."""

    change: SettingChange
    before: int
    after: int

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {"setting": self.change.to_json(), "before": self.before, "after": self.after}
