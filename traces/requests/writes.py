"""Writes of producers (B1, B6): what was appended, what was acknowledged, and what was refused."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.traces.requests.acting import UNHEARD
from highwater.traces.requests.claims import claim
from highwater.traces.requests.context import Context
from highwater.traces.requests.fetches import NOT_LEADER, NOT_THERE
from highwater.traces.requests.history import History
from highwater.traces.requests.leading import Leadership
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.messages import Produced
from highwater.traces.requests.stages import CLOCKS_MS, OWN_MS, Stage
from highwater.traces.requests.verdicts import ACKNOWLEDGED, NOT_WRITTEN, WRITTEN

NONE, TIMED_OUT, NOT_ENOUGH, NOT_ENOUGH_AFTER = 0, 7, 19, 20
ALL = -1


def not_led(context: Context, node: int, history: History, line: RequestLine, found: Produced) -> None:
    """A write to a broker of which nothing says that it led then."""
    if found.error == NOT_LEADER or found.error in NOT_THERE:
        context.verdicts.explained[NOT_WRITTEN] += 1
    elif found.error in (NONE, TIMED_OUT, NOT_ENOUGH, NOT_ENOUGH_AFTER):
        guards = ("the broker takes itself for the leader",)
        context.verdicts.not_explained(line, history.name, WRITTEN, guards, None, leader=node)
    else:
        context.verdicts.outside[f"write answered with error {found.error}"] += 1


def produced(context: Context, led: Leadership, line: RequestLine, found: Produced, history: History) -> None:
    """A write to a leader."""
    verdicts, error = context.verdicts, found.error
    led.logs_writes &= not found.transactional and found.acks != 0
    led.go_on(line.answered)
    led.settle_until(line.taken - OWN_MS)
    stages = led.possible(line.taken)
    if error == NOT_ENOUGH:
        _refused(context, led, line, stages)
    elif error == NOT_LEADER or error in NOT_THERE:
        _not_leader(context, led, line, history)
        if found.offset >= 0:
            led.append(found.offset)
    elif error in (NONE, TIMED_OUT, NOT_ENOUGH_AFTER):
        if found.offset >= 0:
            _appended(context, led, line, found, stages)
        elif found.acks == 0 or error != NONE:
            verdicts.explained[WRITTEN] += 1
        else:
            verdicts.not_explained(line, led.name, WRITTEN, (), {"baseOffset": ("an offset", found.offset)})
    else:
        verdicts.outside[f"write answered with error {error}"] += 1


def _refusals(led: Leadership, stage: Stage) -> tuple[tuple[str, ...], bool]:
    """B6. What refuses a write with acks=all in a stage, and whether its ISR is too small to acknowledge one."""
    if stage.refusals is None:
        leading, _ = led.ranked(stage, {}, 0)
        nobody = leading._replace(leos=(UNHEARD,) * led.acting.slots)
        passed = nobody._replace(hwm=1, end=1)
        stage.refusals = led.acting.write_refused(nobody), led.acting.acknowledgement_refused(passed, 0)
    return stage.refusals


def _refused(context: Context, led: Leadership, line: RequestLine, stages: Sequence[Stage]) -> None:
    """B6. The ISR was under min ISR in a stage that the leader can have been in."""
    if any(_refusals(led, stage)[0] for stage in stages):
        context.verdicts.explained[NOT_WRITTEN] += 1
        return
    sizes = sorted({(len(s.version.state.isr), s.min_isr) for s in stages})
    context.verdicts.not_explained(
        line, led.name, NOT_WRITTEN, (), {"(ISR, min ISR)": (sizes, "NOT_ENOUGH_REPLICAS")}
    )


def _not_leader(context: Context, led: Leadership, line: RequestLine, history: History) -> None:
    """A broker that leads, by all that is known, and says that it does not."""
    ended = history.has_later(led.epoch, line.answered + CLOCKS_MS)
    begins = led.last_answered == 0 or led.last_answered > line.taken - OWN_MS
    led.denied = line.answered
    if ended or begins:
        context.verdicts.explained[NOT_WRITTEN] += 1
    else:
        context.verdicts.not_explained(line, led.name, NOT_WRITTEN, (), None, leader=led.broker)


def _appended(
    context: Context, led: Leadership, line: RequestLine, found: Produced, stages: Sequence[Stage]
) -> None:
    verdicts = context.verdicts
    is_new = led.append(found.offset)
    if is_new:
        verdicts.explained[WRITTEN] += 1
    else:
        # An idempotent producer is told where its batch is already.
        verdicts.explained["write_acks_all, sent again"] += 1
        verdicts.guessed["that an earlier leader appended what is acknowledged"] += is_new is None
        if is_new is False and led.appended[found.offset]:
            verdicts.guessed["that a producer sent again what was acknowledged"] += 1
    if found.acks != ALL:
        return
    refusals = [_refusals(led, stage) for stage in stages]
    if is_new and all(write for write, _ in refusals):
        verdicts.not_explained(line, led.name, WRITTEN, refusals[0][0], None, leader=led.broker)
    if found.error != NONE:
        verdicts.outside["written, and not acknowledged"] += 1
        return
    verdicts.explained[ACKNOWLEDGED] += 1
    if found.offset in led.appended:
        led.appended[found.offset] = True
    if all(too_small for _, too_small in refusals):
        verdicts.not_explained(
            line, led.name, ACKNOWLEDGED, ("the record is committed",), None, leader=led.broker
        )
    claim(context, led, found.offset + 1, line, None)
    led.aging.append((line.answered, None, found.offset + 1))
    led.last_answered = max(led.last_answered, line.answered)
