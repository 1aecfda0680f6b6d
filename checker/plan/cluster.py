"""Read the cluster of a question about a plan from its metadata log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.checker.base.problems import InputError
from highwater.checker.plan.kinds import ObservedCluster
from highwater.model.replication.controller.rules import PROFILES
from highwater.traces.inputs import METADATA_DUMP, METADATA_LOG, inputs
from highwater.traces.kafka.copies import open_copies
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN
from highwater.traces.reports.report import Report
from highwater.traces.reports.text import brokers, moment
from highwater.traces.rules.profiles import ELR_VERSION, rule_set


def read_cluster(
    paths: Sequence[Path], kafka: str | None, switched: Mapping[str, bool], assume: Sequence[str]
) -> ObservedCluster:
    """The cluster at the end of its metadata log.

    ``kafka`` is the version whose rules it follows from now on; None: by its features. ``switched`` switches rules, and
    ``assume`` sets settings that the log does not have. Raises InputError, TraceError, and LanguageError for an unknown
    rule.
    """
    assumed = _assumed(assume)
    found = [i for i in inputs(paths).found if i.kind in (METADATA_LOG, METADATA_DUMP)]
    if len(found) != 1:
        raise InputError(f"{paths[0]}: {len(found)} metadata logs, where one is expected")
    one = found[0]
    log = open_copies(one.path, one.copies)
    report = Report(str(one.path), log.kind, "")
    follower = replay_metadata(log, report)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.damage:
        raise InputError(f"{report.damage[0].message}: a plan needs the whole log")
    image = follower.image
    if not image.partitions:
        raise InputError(f"{paths[0]}: the cluster has no partition")
    profile = (
        follower.rules.profile if kafka is None else _profile(kafka, image.features.get(ELR_VERSION, 0) > 0)
    )
    chosen = rule_set(profile, switched)
    doubts = list(dict.fromkeys(doubt.summary for doubt in report.doubts))
    if left := sorted(image.unfollowed.values()):
        doubts.append(f"{left[0]}{f' and {len(left) - 1} more' if len(left) > 1 else ''} cannot be followed")
    down = [broker for broker in sorted(image.brokers) if image.flags(broker).fenced]
    notes = [
        *report.notes,
        *([f"Down now: {brokers(down)}. The answer supposes that each comes back."] if down else []),
    ]
    as_of = moment(follower.last_time) if follower.last_time else "a snapshot without a time"
    rest = tuple(doubts), tuple(notes), as_of
    return ObservedCluster(image, follower.beliefs, chosen.rules, profile, assumed, *rest)


def _profile(kafka: str, elr: bool) -> str:
    minor = re.fullmatch(r"4\.([0-9]+)(\.[0-9]+)?", kafka)
    name = "kafka_4_1_0" if kafka == "4.1.0" else f"kafka_4_{minor and minor[1]}"
    if name not in PROFILES:
        raise InputError(f"--kafka {kafka}: known are 4.0 to 4.4")
    if elr:
        return name
    return "kafka_4_3_elr_off" if name in ("kafka_4_3", "kafka_4_4") else "kafka_4_2_elr_off"


def _assumed(assume: Sequence[str]) -> tuple[int | None, bool | None]:
    min_isr, unclean = None, None
    for text in assume:
        name, _, value = text.partition("=")
        if name == UNCLEAN and value in ("true", "false"):
            unclean = value == "true"
        elif name == MIN_ISR and re.fullmatch(r"[1-9]|1[0-2]", value):
            min_isr = int(value)
        else:
            raise InputError(f"--assume {text}: expected {UNCLEAN}=true or false, or {MIN_ISR}=1 to 12")
    return min_isr, unclean
