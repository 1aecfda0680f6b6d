"""One node's requests in the order of its log, assigned to partitions and leader epochs."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from pathlib import Path

from highwater.invariants import statements
from highwater.traces.messages import answers, proposals
from highwater.traces.messages.answers import Before, recheck
from highwater.traces.messages.context import ANSWERED, CLOCKS_MS, OWN_MS, SENT, Apart, Context
from highwater.traces.messages.leaders import IDLE_MS, LINES_MS, Leadership, acting, slots_for, stages
from highwater.traces.messages.metadata_index import NEVER, History
from highwater.traces.messages.request_lines import (
    CONSUMER,
    Answer,
    Asked,
    Fetch,
    Key,
    Produced,
    RequestLine,
    Sessions,
)
from highwater.traces.rules import profiles

# --- nodes -----------------------------------------------------------------------------------------------

MAX_BEFORE = 500_000
"""The most pairs of follower and partition whose last fetch is stored."""
LEADERSHIPS = 64
"""When so many leaderships are stored, those of deleted partitions are dropped for the first time."""


LIVES = 1000
"""The most incarnations of brokers whose start and end times are cached."""


class Node:
    """A broker, reconstructed from its request log.

    Call ``take_fetch`` and ``take_produce`` in the order of the log, and ``finish`` at its end.
    """

    def __init__(self, context: Context, broker: int) -> None:
        self.context, self.broker = context, broker
        self.sessions, self.apart = Sessions(), Apart(broker)
        self.led: dict[int, Leadership | None] = {}
        self._before: OrderedDict[tuple[int, Key], Before] = OrderedDict()
        self._pending: dict[int, list[proposals.Waiting]] = {}
        self._lives: dict[tuple[int, int], tuple[float, float]] = {}
        self._histories: dict[Key, History | None] = {}
        self.first: float | None = None
        self.now = self.active = 0.0
        self._purge_at = LEADERSHIPS
        self.paths: set[Path] = set()
        self._path: Path | None = None
        self._start = context.index.starts_after(broker, -NEVER)
        """The next time at which the broker registers with a new broker epoch."""

    # --- fetches --------------------------------------------------------------------------------------

    def take_fetch(self, fetch: Fetch) -> None:
        """Check a fetch and its answer, partition by partition."""
        verdicts = self.context.verdicts
        self._time(fetch.line)
        if fetch.line.path is not self._path:
            self._path = fetch.line.path
            self.paths.add(self._path)
        if fetch.replica == CONSUMER:
            verdicts.outside["fetch of a consumer"] += 1
            return
        asked, goes_on = self.sessions.take(fetch)
        if fetch.error:
            verdicts.outside[f"fetch without a session, error {fetch.error}"] += 1
            return
        verdicts.explained[SENT] += 1
        named, answers = fetch.asked, fetch.answers
        if not answers and not named:
            verdicts.explained["answer_fetch, nothing new in any partition"] += 1
        for key, answer in answers.items():
            wanted = asked.get(key)
            if wanted is None:
                verdicts.guessed["a partition of a session that began before the log"] += 1
            else:
                self._fetched(fetch, key, wanted, answer, goes_on)
        for key, wanted in named.items():
            if key not in answers:
                self._fetched(fetch, key, wanted, None, goes_on)

    def _fetched(self, fetch: Fetch, key: Key, asked: Asked, answer: Answer | None, goes_on: bool) -> None:
        context = self.context
        history = self._histories[key] if key in self._histories else self._history(key)
        if history is None:
            context.verdicts.outside["partition that the metadata log does not have"] += 1
            return
        before = self._before.get((fetch.replica, key)) if goes_on else None
        if answer is not None and answer.error:
            answers.refused(
                context, self.broker, self.led.get(history.number), history, fetch, asked, answer.error
            )
            self._before.pop((fetch.replica, key), None)
            return
        is_current = self._is_current(fetch)
        if not is_current and not answers.sender_is_known(context, history.name, fetch):
            return
        answers.continued(context, history.name, fetch, asked, before)
        is_later = before is not None and before.leader_epoch > asked.leader_epoch
        led = self._leads(history, asked.leader_epoch, fetch.line, is_later)
        hwm = before.hwm if before is not None and before.leader_epoch == asked.leader_epoch else -1
        told = answer if answer is not None else Answer(key[1], 0, hwm, 0) if hwm >= 0 else None
        if led is not None:
            if fetch.line.taken > led.over:
                by = fetch.line.taken - led.over
                self.apart.answer(fetch.line, history.number, led.epoch, by, early=False)
            if not is_current and answers.is_stale(context, led, fetch):
                return
            if told is not None:
                answers.answered(context, led, fetch, asked, told, before)
        elif not self._was_under_way(history, asked.leader_epoch):
            return
        kind, end = "empty", -1
        if told is not None and told.diverging is not None:
            kind, end = "diverging", told.diverging.end_offset
        elif told is not None and told.size:
            kind = "record"
        self._keep(
            (fetch.replica, key),
            Before(
                asked.leader_epoch, fetch.epoch, asked.offset, kind, end,
                hwm if told is None else told.hwm, fetch.line.answered,
            ),
        )  # fmt: skip
        if led is None:
            return
        pending = self._pending.get(id(led))
        if pending:
            if fetch.replica in led.watched and fetch.replica in led.heard and kind != "diverging":
                proposals.noted(context, led, pending, fetch.replica, fetch.line.taken)
            if self.now >= pending[0].until:
                self._judge(led)

    def _is_current(self, fetch: Fetch) -> bool:
        """True if the broker epoch in a fetch was certainly the sender's current one."""
        sender = (fetch.replica, fetch.epoch)
        if sender not in self._lives:
            if len(self._lives) >= LIVES:
                self._lives.clear()
            self._lives[sender] = _life(self.context, fetch)
        begins, ends = self._lives[sender]
        return begins <= fetch.line.answered and fetch.line.answered < ends

    def _was_under_way(self, history: History, epoch: int) -> bool:
        """True if this broker led in ``epoch``, before its present leadership.

        If so, a fetch of that epoch may still have been in flight.
        """
        led = self.led.get(history.number)
        begins = None if led is None or epoch >= led.epoch else history.begins(epoch)
        return begins is not None and begins.leader == self.broker

    def _keep(self, key: tuple[int, Key], before: Before) -> None:
        self._before[key] = before
        self._before.move_to_end(key)
        if len(self._before) > MAX_BEFORE:
            self._before.popitem(last=False)

    # --- writes ---------------------------------------------------------------------------------------

    def take_produce(self, line: RequestLine, written: list[Produced]) -> None:
        """Check a write and its answer, partition by partition."""
        self._time(line)
        for found in written:
            history = self._history(found.key)
            if history is None:
                self.context.verdicts.outside["partition that the metadata log does not have"] += 1
                continue
            led = self.led.get(history.number)
            epoch = self._epoch_led(history, led, line)
            if (
                epoch is not None
                and (led is None or led.epoch != epoch)
                and found.error != answers.NOT_LEADER
            ):
                led = self._leads(history, epoch, line)
            if led is None:
                if epoch is not None:
                    self.context.verdicts.outside["partition with too many brokers"] += 1
                else:
                    answers.not_led(self.context, self.broker, history, line, found)
            else:
                led.active = self.active
                answers.produced(self.context, led, line, found, history)
                self._judge(led)

    def _judge(self, led: Leadership) -> None:
        pending = self._pending.get(id(led))
        if pending:
            self._pending[id(led)] = proposals.judge(self.context, led, pending, self.now)

    def _epoch_led(self, history: History, led: Leadership | None, line: RequestLine) -> int | None:
        """The last leader epoch in which this broker can have led while a request was in flight; None if none.

        Epochs before the epoch of ``led`` do not count.
        """
        if led is not None and not history.has_later(led.epoch, line.answered + CLOCKS_MS):
            return led.epoch
        found = history.led_by(self.broker, line.answered + CLOCKS_MS)
        return None if found is None or (led is not None and found < led.epoch) else found

    # --- leaderships ------------------------------------------------------------------------------------

    def _leads(
        self, history: History, epoch: int, line: RequestLine, is_later: bool = False
    ) -> Leadership | None:
        """The leadership to which a message of leader epoch ``epoch`` belongs; it is created if needed.

        Returns None, after recording a verdict, if there is no such leadership that can be checked. ``is_later``: the
        message certainly came after an answer in a later leader epoch.
        """
        led = self.led.get(history.number)
        if led is not None and led.epoch == epoch:
            led.active = self.active
            return led
        verdicts, begins = self.context.verdicts, history.begins(epoch)
        if begins is None or begins.time > line.answered + CLOCKS_MS:
            if begins is not None and begins.leader == self.broker:
                self.apart.answer(line, history.number, epoch, begins.time - line.answered, early=True)
            there = history.begun(line.answered + CLOCKS_MS)
            verdicts.not_explained(line, history.name, ANSWERED, (), {"currentLeaderEpoch": (there, epoch)})
            return None
        if begins.leader != self.broker:
            own = history.led_by(self.broker, NEVER)
            self._former(history, epoch, -1 if own is None else own, line)
            return None
        if led is not None and epoch < led.epoch:
            if 0 < led.last_answered <= line.taken - OWN_MS or is_later:
                self._former(history, epoch, led.epoch, line)
            else:
                verdicts.guessed["a request that was under way when the leader epoch began"] += 1
            return None
        if history.number in self.led and led is None:
            verdicts.outside["partition with too many brokers"] += 1
            return None
        if led is not None:
            self._close(led)
        return self._begin(history, epoch)

    def _former(self, history: History, asked: int, leads: int, line: RequestLine) -> None:
        assert not profiles.leader_answers_in_its_epoch(asked=asked, leads=leads)
        self.context.finding(
            statements.leader_answers_in_its_epoch, "B2", line, history.name,
            f"broker {self.broker} answered a fetch of leader epoch {asked}, which is not the one that it leads in",
            "the follower's log may differ from the leader's",
        )  # fmt: skip

    def _begin(self, history: History, epoch: int) -> Leadership | None:
        context = self.context
        proposed = list(context.asked.proposed(self.broker, history.number, epoch))
        of_epoch = stages(history, epoch, proposed, partial(context.asked.knew, self.broker))
        slots = slots_for(self.broker, of_epoch)
        if slots is None:
            self.led[history.number] = None
            context.verdicts.outside["partition with too many brokers"] += 1
            return None
        count = 4 if len(slots) <= 4 else 8
        models = acting(count, context.report.profile), acting(count, context.report.profile, patient=True)
        whole = self.first is not None and of_epoch[0].version.time > self.first
        led = Leadership(self.broker, history.name, epoch, of_epoch, *models, slots, whole)
        led.apart = self.apart
        later = history.later(epoch)
        led.over = NEVER if later is None else context.asked.knew(self.broker, later.position) + CLOCKS_MS
        for proposal in proposed:
            led.proposed.setdefault(proposal.partition_epoch, []).append(proposal)
        self._purge()
        self.led[history.number] = led
        pending = self._pending[id(led)] = proposals.waiting(led, proposed)
        led.watched = proposals.watched(pending)
        return led

    def _purge(self) -> None:
        """If many leaderships are stored, close those of deleted partitions: their topic ids are never reused."""
        if len(self.led) < self._purge_at:
            return
        gone = [
            key for key, history in self._histories.items()
            if history is not None and history.deleted is not None and history.deleted < self.now - LINES_MS
        ]  # fmt: skip
        for key in gone:
            history = self._histories.pop(key)
            led = None if history is None else self.led.pop(history.number, None)
            if led is not None:
                self._close(led)
        self._purge_at = max(LEADERSHIPS, 2 * len(self.led))

    def _close(self, led: Leadership) -> None:
        led.active = self.active
        recheck(self.context, led, ends=True)
        pending = self._pending.pop(id(led), [])
        proposals.judge(self.context, led, pending, self.now, ends=True)

    def finish(self) -> None:
        """End the log: check the claims and proposals that are still pending."""
        for led in self.led.values():
            if led is not None:
                self._close(led)
        self.led.clear()

    def _history(self, key: Key) -> History | None:
        if key not in self._histories:
            self._histories[key] = self.context.index.history(*key)
        return self._histories[key]

    def _restarted(self, now: float) -> None:
        """Handle a new registration of the broker. Requests in flight when its former process died have no line."""
        self._start = self.context.index.starts_after(self.broker, now)
        for led in self.led.values():
            if led is not None:
                recheck(self.context, led, ends=True)
                pending = self._pending[id(led)]
                self._pending[id(led)] = proposals.judge(self.context, led, pending, self.now, ends=True)

    def _time(self, line: RequestLine) -> None:
        if line.ended >= self._start:
            self._restarted(line.ended)
        if self.first is None:
            self.first = line.arrived
        passed = line.ended - self.now
        if passed > 0:
            if self.now:
                self.active += min(passed, IDLE_MS)
            self.now = line.ended


def _life(context: Context, fetch: Fetch) -> tuple[float, float]:
    """The start and end of the time in which a fetch's sender certainly had the broker epoch in the fetch."""
    begins = context.index.registered(fetch.replica, fetch.epoch)
    ends, _ = context.index.registered_later(fetch.replica, fetch.epoch)
    return begins + CLOCKS_MS, ends - CLOCKS_MS
