"""One node's requests in the order of its log, assigned to partitions and leader epochs, and the checks of epochs."""

from __future__ import annotations

from collections import deque

from highwater.invariants import statements
from highwater.traces.messages import proposals
from highwater.traces.messages.context import (
    ACKNOWLEDGED,
    ANSWERED,
    CLOCKS_MS,
    LINES_MS,
    REFUSED,
    SENT,
    Context,
    Follower,
    Leadership,
)
from highwater.traces.messages.metadata_index import NEVER, History
from highwater.traces.messages.request_lines import (
    CONSUMER,
    Answer,
    Fetch,
    Key,
    Produced,
    RequestedPartition,
    RequestLine,
    Sessions,
)
from highwater.traces.rules import profiles

IDLE_MS = 200.0
"""Of a longer gap between two lines, only this counts as active time: the process may have been stopped."""
LEADERSHIPS = 64
"""When so many leaderships are stored, those of deleted partitions are dropped for the first time."""
NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH = 6, 74, 75
NOT_THERE = frozenset({3, 100, 103})
"""The errors of a broker that does not know the partition, or knows another topic id for it."""
ALL = -1
"""The value of acks in a write that waits for the whole ISR."""


class Node:
    """A broker, reconstructed from its request log.

    Call ``take_fetch`` and ``take_produce`` in the order of the log, and ``finish`` at its end.
    """

    def __init__(self, context: Context, broker: int) -> None:
        self.context, self.broker = context, broker
        self.sessions = Sessions()
        self.led: dict[int, Leadership] = {}
        """The latest leadership of each partition, by ``History.number``."""
        self._histories: dict[Key, History | None] = {}
        self.first: float | None = None
        self.now = self.active = 0.0
        self._purge_at = LEADERSHIPS
        self._start = context.index.starts_after(broker, -NEVER)
        """The next time at which the broker registers with a new broker epoch."""

    # --- fetches --------------------------------------------------------------------------------------

    def take_fetch(self, fetch: Fetch) -> None:
        """Check a fetch and its answer, partition by partition."""
        verdicts = self.context.verdicts
        self._time(fetch.line)
        if fetch.replica == CONSUMER:
            verdicts.outside["fetch of a consumer"] += 1
            return
        requested = self.sessions.take(fetch)
        if fetch.error:
            verdicts.outside[f"fetch without a session, error {fetch.error}"] += 1
            return
        for key, answer in fetch.answers.items():
            wanted = requested.get(key)
            if wanted is None:
                verdicts.guessed["a partition of a session that began before the log"] += 1
            else:
                self._fetched(fetch, key, wanted, answer)
        for key, wanted in fetch.requested.items():
            if key not in fetch.answers:
                self._fetched(fetch, key, wanted, None)

    def _fetched(self, fetch: Fetch, key: Key, requested: RequestedPartition, answer: Answer | None) -> None:
        context, history = self.context, self._history(key)
        if history is None:
            return
        if answer is not None and answer.error:
            self._refused(history, fetch, requested, answer.error)
            return
        if not self._is_sender_known(history, fetch):
            return
        context.verdicts.explained[SENT] += 1
        led = self._leads(history, requested.leader_epoch, fetch.line)
        if led is None:
            self._held(history, fetch, requested)
            return
        if self._is_stale(led, fetch):
            return
        context.verdicts.explained[ANSWERED] += 1
        if answer is None or answer.diverging is None:
            led.fetched(fetch, requested)
        if answer is not None:
            led.answered(fetch.line, answer.hwm)
        self._judge(led)

    def _is_sender_known(self, history: History, fetch: Fetch) -> bool:
        """903.1. True if the broker epoch in a fetch can have been the sender's; otherwise the fetch is reported."""
        index, sender = self.context.index, fetch.replica
        if fetch.epoch < 0 or index.registered(sender, fetch.epoch) <= fetch.line.answered + CLOCKS_MS:
            return True
        if sender not in index.brokers:
            self.context.verdicts.guessed["a broker whose registration is not in the metadata log"] += 1
            return True
        differences = {"replicaEpoch": (index.epochs_of(sender), fetch.epoch)}
        self.context.verdicts.not_explained(fetch.line, history.name, SENT, (), differences, f=sender)
        return False

    def _is_stale(self, led: Leadership, fetch: Fetch) -> bool:
        """K2, 903.2. True if the leader knew that a fetch is from a former incarnation; its answer is then reported."""
        context, sender = self.context, fetch.replica
        later = context.index.registered_later(sender, fetch.epoch)
        if fetch.epoch < 0 or later is None:
            return False
        knew = context.to_controllers.had_replayed(self.broker, later.position, fetch.line.taken - CLOCKS_MS)
        if not knew or profiles.stale_epochs_are_refused(sent=fetch.epoch, known=later.epoch):
            return False
        context.finding(
            statements.stale_epochs_are_refused, "903.2", fetch.line, led.name,
            f"leader {self.broker} answered a fetch of broker {sender} under broker epoch {fetch.epoch}, and had "
            f"replayed the registration under a later one",
            "the records of this incarnation may be gone",
        )  # fmt: skip
        return True

    def _refused(self, history: History, fetch: Fetch, requested: RequestedPartition, error: int) -> None:
        """B2. Check an answer that refuses a fetch: the broker must be able to know a reason."""
        verdicts, line = self.context.verdicts, fetch.line
        self._held(history, fetch, requested)
        if error in NOT_THERE:
            verdicts.guessed["a broker had not replayed the creation of the partition"] += 1
        elif error not in (NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH):
            verdicts.outside[f"fetch answered with error {error}"] += 1
            return
        elif not self._can_refuse(history, fetch, requested.leader_epoch, error):
            guards = ("nothing that the broker can know refuses it",)
            verdicts.not_explained(line, history.name, REFUSED, guards, None, f=fetch.replica, error=error)
            return
        verdicts.explained[REFUSED] += 1

    def _can_refuse(self, history: History, fetch: Fetch, epoch: int, error: int) -> bool:
        line, led = fetch.line, self.led.get(history.number)
        known = led.epoch if led is not None and led.had_answered(line.taken) else -1
        if error == FENCED_EPOCH:
            return history.has_later(epoch, line.answered + CLOCKS_MS)
        if error == UNKNOWN_EPOCH:
            return known < epoch
        later = self.context.index.registered_later(fetch.replica, fetch.epoch)
        return known != epoch or (later is not None and later.time <= line.answered + CLOCKS_MS)

    def _held(self, history: History, fetch: Fetch, requested: RequestedPartition) -> None:
        """Record the offset of a fetch that the leader can have used on arrival, before its leader epoch ended."""
        led, begins = self.led.get(history.number), history.begins(requested.leader_epoch)
        if led is not None and begins is not None and begins.leader == self.broker:
            led.holds(fetch.replica, requested.offset, fetch.line.taken)
            self._judge(led)

    # --- writes ---------------------------------------------------------------------------------------

    def take_produce(self, line: RequestLine, written: list[Produced]) -> None:
        """Check the acknowledgement of a write, partition by partition."""
        self._time(line)
        for found in written:
            history = self._history(found.key)
            if history is not None:
                self._written(history, line, found)
                led = self.led.get(history.number)
                if led is not None:
                    self._judge(led)

    def _written(self, history: History, line: RequestLine, found: Produced) -> None:
        verdicts = self.context.verdicts
        if found.error or not found.answered:
            answer = f"answered with error {found.error}" if found.answered else "without an answer"
            verdicts.outside[f"write {answer}"] += 1
            return
        epoch = self._epoch_led(history, line)
        led = None if epoch is None else self._leads(history, epoch, line)
        if led is None:
            guards = ("the broker takes itself for the leader",)
            verdicts.not_explained(line, history.name, ACKNOWLEDGED, guards, None, leader=self.broker)
        elif found.acks != ALL:
            verdicts.outside["write that does not wait for the ISR"] += 1
        else:
            led.acknowledge(self.context, line, found.offset, self.active)

    def _epoch_led(self, history: History, line: RequestLine) -> int | None:
        """The last leader epoch in which this broker can have led while a request was in flight; None if none.

        Epochs before that of its latest leadership do not count.
        """
        led = self.led.get(history.number)
        if led is not None and not history.has_later(led.epoch, line.answered + CLOCKS_MS):
            return led.epoch
        found = history.led_by(self.broker, line.answered + CLOCKS_MS)
        return None if found is None or (led is not None and found < led.epoch) else found

    # --- leaderships ------------------------------------------------------------------------------------

    def _leads(self, history: History, epoch: int, line: RequestLine) -> Leadership | None:
        """The leadership to which a message of leader epoch ``epoch`` belongs; it is created if needed.

        Returns None, after recording a verdict, if there is no such leadership.
        """
        led = self.led.get(history.number)
        if led is not None and led.epoch == epoch:
            return led
        verdicts, begins = self.context.verdicts, history.begins(epoch)
        if begins is not None and begins.leader == self.broker and (led is None or led.epoch < epoch):
            whole = self.first is not None and begins.time > self.first
            if whole:
                self.context.clocks.add(line.path, line.answered - begins.time)
        if begins is None or begins.time > line.answered + CLOCKS_MS:
            there = history.begun(line.answered + CLOCKS_MS)
            verdicts.not_explained(line, history.name, ANSWERED, (), {"currentLeaderEpoch": (there, epoch)})
            return None
        if begins.leader != self.broker:
            own = history.led_by(self.broker, NEVER)
            self._former(history, epoch, -1 if own is None else own, line)
            return None
        if led is not None and epoch < led.epoch:
            if led.had_answered(line.taken):
                self._former(history, epoch, led.epoch, line)
            else:
                verdicts.guessed["a request that was under way when the leader epoch began"] += 1
            return None
        return self._begin(history, epoch, led)

    def _former(self, history: History, epoch: int, leads: int, line: RequestLine) -> None:
        assert not profiles.leader_answers_in_its_epoch(requested=epoch, leads=leads)
        self.context.finding(
            statements.leader_answers_in_its_epoch, "B2", line, history.name,
            f"broker {self.broker} answered a fetch of leader epoch {epoch}, which is not the one that it leads in",
            "the follower's log may differ from the leader's",
        )  # fmt: skip

    def _begin(self, history: History, epoch: int, former: Leadership | None) -> Leadership:
        versions = history.of_epoch(epoch)
        whole = self.first is not None and versions[0].time > self.first
        proposed = self.context.to_controllers.proposed(self.broker, history, epoch)
        led = Leadership(self.broker, history, epoch, versions, whole, deque(proposed))
        if former is not None:
            self._close(former)
            later = history.later(former.epoch)
            if later is not None and later.epoch == epoch:
                # A leader that stays the leader still knows its followers' offsets and broker epochs.
                led.followers = {f: Follower(k.offset, k.epochs) for f, k in former.followers.items()}
        self._purge()
        self.led[history.number] = led
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

    def _judge(self, led: Leadership, ends: bool = False) -> None:
        if led.acknowledged:
            led.judge_acknowledged(self.context, self.active, ends)
        if led.proposals or led.reached:
            proposals.judge(self.context, led, self.now, self.active, ends)

    def _close(self, led: Leadership) -> None:
        self._judge(led, ends=True)

    def finish(self) -> None:
        """End the log: check the acknowledgements and proposals that still wait for lines."""
        for led in self.led.values():
            self._close(led)
        self.led.clear()

    def _history(self, key: Key) -> History | None:
        if key not in self._histories:
            self._histories[key] = self.context.index.history(*key)
        found = self._histories[key]
        if found is None:
            self.context.verdicts.outside["partition that the metadata log does not have"] += 1
        return found

    def _time(self, line: RequestLine) -> None:
        if line.ended >= self._start:
            # Requests in flight when the broker's former process died have no line.
            self._start = self.context.index.starts_after(self.broker, line.ended)
            for led in self.led.values():
                self._close(led)
        if self.first is None:
            self.first = line.arrived
        passed = line.ended - self.now
        if passed > 0:
            if self.now:
                self.active += min(passed, IDLE_MS)
            self.now = line.ended
