"""The loop of ``replay --follow``: poll the logs, report incidents, write the state, until a signal ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from highwater.checker.base.problems import InputError, Status
from highwater.checker.follow.outputs import EventFile, Hook, Metrics, StateFile, note, say
from highwater.traces.follow.ledger import CLOSED, IncidentEvent
from highwater.traces.follow.session import FollowerState, Following, Notice
from highwater.traces.metadata.replay import rarely_collected
from highwater.traces.reading import printable
from highwater.traces.reports.incident_words import LABELS
from highwater.traces.reports.text import moment

MAX_GARBAGE = 100_000
"""The number of new objects after which Python collects garbage; a larger number would cost more memory."""
POLL_SECONDS = 0.5
STATE_SECONDS = 2.0


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[list[int]]:
    """A context in which the first SIGTERM or SIGINT sets ``stop``; a later SIGINT raises KeyboardInterrupt.

    The yielded list gets the numbers of the signals.
    """
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Outputs(NamedTuple):
    """The outputs of a follower; None for each output that no option requests."""

    events: EventFile | None
    state: StateFile | None
    metrics: Metrics | None
    hook: Hook | None

    @classmethod
    def opened(
        cls, events: str | None, state: Path | None, metrics: str | None, command: str | None
    ) -> Outputs:
        """Open the outputs that the options request. Raises InputError if one cannot be opened."""
        return cls(
            None if events is None else EventFile(events),
            None if state is None else StateFile(state),
            None if metrics is None else Metrics(metrics),
            None if command is None else Hook(command),
        )


def follow(
    paths: Sequence[Path],
    profile: str | None,
    rules: Mapping[str, bool],
    outputs: Outputs,
    *,
    quiet: bool = False,
) -> Status:
    """Follow the metadata log in the first of ``paths`` until SIGTERM (status 0) or SIGINT (130).

    Further ``paths`` are directories with brokers' logs. Each event is written before the state that includes it. With
    a state file, an event that the event file already has is not repeated. Without one, events are numbered from 1.
    Raises InputError if a path is a file, and LanguageError for an unknown profile or rule.
    """
    _refuse_files(paths)
    directory, broker_logs = paths[0], paths[1:]
    events, state, metrics, hook = outputs
    place = None if state is None else state.read(directory)
    if events is not None and state is not None:
        place = _as_told(place, events, bool(broker_logs))
    elif events is not None:
        events.last_seq = 0  # events are numbered from 1 again
    following = Following(directory, profile, rules, place, broker_logs)
    if metrics is not None and place is not None:
        metrics.severities = {id: str(said["severity"]) for id, said in place.open.items()}
    stop = threading.Event()
    try:
        with _stopped_by_signals(stop) as signals, rarely_collected(MAX_GARBAGE):
            if not quiet:
                note(f"follows {following.directory}; SIGTERM or Ctrl-C ends it")
            if metrics is not None and metrics.address is not None:
                note(f"metrics at {metrics.address}")
            waited = 0.0
            while not stop.is_set():
                for said in following.poll():
                    _tell(said, events, metrics, hook, quiet)
                if events is None or events.flush():
                    place = following.place  # else the state leaves out the events that wait
                if metrics is not None:
                    open = [str(one.incident["severity"]) for one in following.reported.values()]
                    metrics.update(following.counts, open, following.is_waiting)
                is_due = waited >= STATE_SECONDS and following.has_begun
                if state is not None and place is not None and is_due:
                    state.write(directory, place)
                    waited = 0.0
                if not following.is_behind:
                    stop.wait(POLL_SECONDS)
                    waited += POLL_SECONDS
                else:
                    waited = STATE_SECONDS
        if events is None or events.flush():
            place = following.place
        if state is not None and place is not None and following.has_begun:
            state.write(directory, place)
        return Status.INTERRUPTED if signals and signals[0] == signal.SIGINT else Status.OK
    finally:
        following.close()
        for output in (hook, metrics, events, state):
            if output is not None:
                output.close()


def _refuse_files(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: --follow needs directories: of a metadata log, then of brokers' logs")


def _as_told(place: FollowerState | None, events: EventFile, has_logs: bool) -> FollowerState | None:
    """The state ``place``, updated by the events after it in the event file; None if there is no state and no event.

    A killed follower may have written events after its last state. After a restart, the same event can get another
    number, because brokers' logs and the metadata log interleave differently. So the incidents of these events are
    added to ``place`` as open or closed, and later events about them are recognized by the incidents' ids.
    """
    for event in events.after(0 if place is None else place.seq):
        place = FollowerState(0, 0, 0, {}, {} if has_logs else None) if place is None else place
        incident = event["incident"]
        place.seq, place.next_offset = event["seq"], max(place.next_offset, event["offset"] + 1)
        if event["event"] == CLOSED:
            place.open.pop(incident["id"], None)
            if place.settled is not None:
                place.settled[incident["id"]] = str(incident["severity"])
        else:
            place.open[incident["id"]] = incident
    return place


def _tell(
    said: IncidentEvent | Notice,
    events: EventFile | None,
    metrics: Metrics | None,
    hook: Hook | None,
    quiet: bool,
) -> None:
    if isinstance(said, IncidentEvent):
        is_new = events is None or said.seq > events.last_seq
        if events is not None:
            events.write(said.to_json())
        if not is_new:
            return
        if metrics is not None:
            metrics.count(said)
        if hook is not None:
            hook.give(said.to_json())
    elif events is not None:
        events.write(said.to_json())
    if not quiet:
        _say(said)


def _say(said: IncidentEvent | Notice) -> None:
    """Print an event or a notice for people on standard error."""
    if isinstance(said, Notice):
        where = "" if said.offset is None else f" at offset {said.offset}"
        note(f"{said.kind}{where}: {said.text}")
        return
    label = LABELS[str(said.incident["severity"])]
    head = f"{moment(said.time)}  {said.event}  {label}: {said.incident['headline']}"
    say(printable(head + (f" ({said.why})" if said.event == CLOSED and said.why else ""), 1000))
