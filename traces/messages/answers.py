"""Leaders' answers compared with the model: to fetches (B2, B3, B4, 903) and writes (B1, B6), with the HWM in each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.traces.messages.context import (
    ACKNOWLEDGED,
    ANSWERED,
    CLOCKS_MS,
    DIVERGED,
    NOT_WRITTEN,
    OWN_MS,
    REFUSED,
    SENT,
    TAKEN,
    WRITTEN,
    Context,
)
from highwater.traces.messages.leaders import LINES_MS, UNHEARD, Claim, Heard, Leadership, Stage, acting
from highwater.traces.messages.metadata_index import History
from highwater.traces.messages.request_lines import Answer, Asked, Diverging, Fetch, Produced, RequestLine
from highwater.traces.rules import profiles

# --- claims ----------------------------------------------------------------------------------------------


def claim(context: Context, led: Leadership, hwm: int, line: RequestLine, follower: int | None) -> None:
    """Store the HWM in an answer as a claim, if the lines read so far cannot justify it; then recheck all claims.

    If ``follower`` is None, the answer acknowledges a write, so ``hwm`` is a lower bound of the HWM.
    """
    if led.hwm is None or hwm > led.hwm:
        led.greatest(line.taken)
    is_clear = led.hwm is None or (hwm <= led.hwm and (follower is None or led.can_be(hwm)))
    if not is_clear and led.hwm is not None:
        found = Claim(hwm, line, follower is not None, led.active, follower, led.hwm, led.leos())
        if not led.is_possible(found, line.taken):
            led.claims.append(found)
    if led.claims:
        recheck(context, led)


def heard(led: Leadership, follower: int, offset: int, taken: float) -> None:
    """Add a fetch to the claims that it may support: those whose answer can have been made after ``taken``.

    ``taken`` is the time at which the leader read the fetch. The claim in an answer to the same follower is left out.
    """
    for one in led.claims:
        is_before = follower != one.follower and taken <= one.line.answered + OWN_MS
        if is_before and offset > one.leos.get(follower, -1):
            one.leos[follower] = offset
            one.moves += 1


def recheck(context: Context, led: Leadership, ends: bool = False) -> None:
    """Drop the claims whose HWM is now possible, and report the other claims once all lines about them are read.

    ``ends``: the log or the process of the leader ends. Requests in flight may have no line, so a claim that still
    lacks lines counts as guessed.
    """
    open_claims = [claim for claim in led.claims if not led.is_possible(claim, claim.line.taken)]
    led.claims = []
    for claim in open_claims:
        if claim.since + LINES_MS < led.active:
            _broken(context, led, claim)
        elif ends:
            context.verdicts.guessed["a fetch that was under way where the log ends"] += 1
        else:
            led.claims.append(claim)


def _broken(context: Context, led: Leadership, claim: Claim) -> None:
    high = led.reached(claim.base, claim.leos, claim.line.taken)
    if high is None or claim.hwm <= high:
        difference = {"high watermark": (high, claim.hwm)}
        context.verdicts.not_explained(claim.line, led.name, ANSWERED, (), difference, leader=led.broker)
        return
    what = f"leader {led.broker} returned HWM {claim.hwm}" if claim.exact else (
        f"leader {led.broker} acknowledged offset {claim.hwm - 1}"
    )  # fmt: skip
    risk = f"offsets [{high}, {claim.hwm}) are on fewer replicas than an election relies on"
    facts = {"leader_epoch": led.epoch, "hwm": claim.hwm, "possible": high}
    if not claim.exact:
        copies = 1 + sum(offset >= claim.hwm for offset in claim.leos.values())
        least = min(stage.min_isr for stage in led.possible(claim.line.taken))
        kept = profiles.acknowledged_has_copies(hwm=high, offset=claim.hwm - 1, copies=copies, min_isr=least)
        if not kept:
            text = f"{what} in leader epoch {led.epoch}; its HWM was at most {high}, and {copies} replicas had it"
            context.finding(
                statements.acknowledged_has_copies, "B6", claim.line, led.name, text, risk, facts=facts
            )
            return
        context.verdicts.not_explained(claim.line, led.name, ACKNOWLEDGED, (), {"hwm": (high, claim.hwm)})
        return
    under = _under_min_isr(led, claim)
    if under is not None:
        size, least = under
        text = f"{what} while its ISR had {size} members, under min ISR {least}"
        context.finding(
            observed.hwm_stands_under_min_isr, "966.1", claim.line, led.name, text, risk, facts=facts
        )
        return
    waiting = _not_reached(led, claim)
    rule = "B4"
    if any(_reaches(led, claim, stage, proposed=False) for stage in led.possible(claim.line.taken)):
        rule = "B4, B7"
    text = (
        f"{what} in leader epoch {led.epoch}, but has to wait for {', '.join(waiting)}"
        f"{', proposed for the ISR' if rule != 'B4' else ''}: at most {high}"
    )
    context.finding(observed.hwm_waits_for_isr, rule, claim.line, led.name, text, risk, facts=facts)


def _under_min_isr(led: Leadership, claim: Claim) -> tuple[int, int] | None:
    """The ISR size and the min ISR of a possible stage in which min ISR (966.1) alone forbids the claimed HWM.

    Returns None if there is no such stage.
    """
    for stage in led.possible(claim.line.taken):
        size, least = len(stage.version.state.isr), stage.min_isr
        if not profiles.hwm_stands_under_min_isr(isr_size=size, min_isr=least) and _reaches(
            led, claim, stage, min_isr=1
        ):
            return size, least
    return None


def _reaches(
    led: Leadership, claim: Claim, stage: Stage, min_isr: int | None = None, proposed: bool = True
) -> bool:
    """True if a leader with this view of its partition (``stage``) can have reached the claimed HWM.

    ``min_isr`` replaces the stage's min ISR. Without ``proposed``, the pending proposal is ignored.
    """
    leading, offsets = led.ranked(stage, claim.leos, claim.base)
    if min_isr is not None:
        leading = leading._replace(min_isr=min_isr)
    if not proposed:
        leading = leading._replace(proposed=-1)
    return offsets[led.acting.settled(leading)] >= claim.hwm


def _not_reached(led: Leadership, claim: Claim) -> list[str]:
    """The brokers that the claimed HWM must wait for in every possible stage, and whose fetches did not reach it.

    These are brokers in the ISR, or proposed for it. Each text has the broker and its last fetch offset. If there is
    no such broker, the only text is "its ISR".
    """
    stages = led.possible(claim.line.taken)
    members = set.intersection(*({*s.version.state.isr, *(s.proposed or ())} for s in stages))
    found = []
    for broker in sorted(members - {led.broker}):
        offset = claim.leos.get(broker, -1)
        if not profiles.hwm_waits_for_isr(leo=offset, hwm=claim.hwm):
            at = f"at {offset}" if broker in claim.leos else "which has not fetched"
            found.append(f"broker {broker} ({at})")
    return found or ["its ISR"]


# --- fetches ---------------------------------------------------------------------------------------------

NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH = 6, 74, 75
NOT_THERE = frozenset({3, 100, 103})
"""The errors of a broker that does not know the partition, or knows another topic id for it."""


class Before(Struct, gc=False, frozen=True):
    """A follower's last fetch and its answer, whose ``kind`` is ``record``, ``empty`` or ``diverging``.

    ``epoch`` is the broker epoch. ``end`` is the end offset in a diverging answer, −1 in others.
    """

    leader_epoch: int
    epoch: int
    offset: int
    kind: str
    end: int
    hwm: int
    answered: float


def refused(
    context: Context,
    node: int,
    known: Leadership | None,
    history: History,
    fetch: Fetch,
    asked: Asked,
    error: int,
) -> None:
    """B2. Check an answer that refuses a fetch: the broker must be able to know a reason.

    The errors NOT_LEADER, FENCED_EPOCH and UNKNOWN_EPOCH are checked. Other errors are only counted.
    """
    verdicts, line = context.verdicts, fetch.line
    if error in NOT_THERE:
        verdicts.guessed["a broker had not replayed the creation of the partition"] += 1
        verdicts.explained[REFUSED] += 1
        return
    if error not in (NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH):
        verdicts.outside[f"fetch answered with error {error}"] += 1
        return
    if not _can_refuse(context, node, known, history, fetch, asked, error):
        guards = ("nothing that the broker can know refuses it",)
        verdicts.not_explained(line, history.name, REFUSED, guards, None, f=fetch.replica, error=error)
        return
    verdicts.explained[REFUSED] += 1
    if known is not None and known.epoch == asked.leader_epoch and known.slots.get(fetch.replica) is not None:
        # The broker can have taken up the fetch on arrival, and refused it when the wait time was over.
        _heard(known, fetch, asked)
        recheck(context, known)


def _can_refuse(
    context: Context,
    node: int,
    known: Leadership | None,
    history: History,
    fetch: Fetch,
    asked: Asked,
    error: int,
) -> bool:
    """True if the model refuses the fetch with this error in a state of the partition that the broker can have known.

    In the model, the fetch has leader epoch 1.
    """
    model, line, epoch = acting(3, context.report.profile), fetch.line, asked.leader_epoch
    led_then = known is not None and 0 < known.last_answered <= line.taken - OWN_MS
    at_least = known.epoch if known is not None and led_then else -1
    if error == FENCED_EPOCH:
        return model.refuses(True, 2) and history.has_later(epoch, line.answered + CLOCKS_MS)
    if error == UNKNOWN_EPOCH:
        return model.refuses(True, 0) and at_least < epoch
    if at_least == epoch:
        return model.refuses(True, 1, stale=_is_known_stale(context, node, fetch, possible=True))
    return model.refuses(False, 1)


def sender_is_known(context: Context, partition: str, fetch: Fetch) -> bool:
    """903.1. True if the broker epoch in a fetch can have been the sender's; otherwise the fetch is reported."""
    if fetch.epoch < 0:
        return True
    line = fetch.line
    if context.index.registered(fetch.replica, fetch.epoch) <= line.answered + CLOCKS_MS:
        return True
    if fetch.replica not in context.index.brokers:
        context.verdicts.guessed["a broker whose registration is not in the metadata log"] += 1
        return True
    context.verdicts.not_explained(
        line, partition, SENT, (), {"replicaEpoch": (context.index.epochs_of(fetch.replica), fetch.epoch)},
        f=fetch.replica,
    )  # fmt: skip
    return False


def _is_known_stale(context: Context, node: int, fetch: Fetch, possible: bool = False) -> bool:
    """True if the leader certainly (with ``possible``: perhaps) knew a later broker epoch of the sender."""
    time, position = context.index.registered_later(fetch.replica, fetch.epoch)
    if position is None or fetch.epoch < 0:
        return False
    if possible:
        return time <= fetch.line.answered + CLOCKS_MS
    return context.asked.had_replayed(node, position, fetch.line.taken - CLOCKS_MS)


def is_stale(context: Context, led: Leadership, fetch: Fetch) -> bool:
    """K2, 903.2. True if the leader knew that a fetch is from a former incarnation; its answer is then reported."""
    if not _is_known_stale(context, led.broker, fetch):
        return False
    latest = context.index.latest_epoch(fetch.replica)
    if not profiles.stale_epochs_are_refused(sent=fetch.epoch, known=latest):
        text = (
            f"leader {led.broker} answered a fetch of broker {fetch.replica} under broker epoch {fetch.epoch}, and had "
            f"replayed the registration under a later one"
        )
        context.finding(
            statements.stale_epochs_are_refused, "903.2", fetch.line, led.name, text,
            "the records of this incarnation may be gone",
        )  # fmt: skip
    return True


def continued(context: Context, partition: str, fetch: Fetch, asked: Asked, before: Before | None) -> None:
    """B3, B4. Check that a follower's fetch offset follows from its previous fetch and answer."""
    if before is None or before.leader_epoch != asked.leader_epoch or before.epoch != fetch.epoch:
        return
    offset = asked.offset
    if before.kind == "diverging":
        expected, goes_on = before.end, offset <= min(before.offset, before.end)
    else:
        grows = acting(3, context.report.profile).goes_on_from(1, before.kind == "record") > 1
        expected = before.offset + grows
        goes_on = offset > before.offset if grows else offset == before.offset
    if goes_on:
        context.verdicts.explained[TAKEN] += 1
    else:
        context.verdicts.not_explained(
            fetch.line, partition, TAKEN, (), {"fetchOffset": (expected, offset)}, f=fetch.replica,
            answer=before.kind,
        )  # fmt: skip


def answered(
    context: Context, led: Leadership, fetch: Fetch, asked: Asked, answer: Answer, before: Before | None
) -> None:
    """Check an answer without an error to a fetch, and record the fetch in the leader's state."""
    line, f = fetch.line, fetch.replica
    led.go_on(line.answered)
    led.settle_until(line.taken - OWN_MS)
    refused_by = led.answer_refused(f)
    if refused_by:
        context.verdicts.not_explained(line, led.name, ANSWERED, refused_by, None, leader=led.broker, f=f)
        return
    epochs = led.epochs_of.get(f)
    if fetch.epoch >= 0 and (epochs is None or epochs[-1][1] != fetch.epoch):
        led.broker_epoch(f, fetch.epoch, line.taken)
    if answer.diverging is not None:
        _diverging(context, led, fetch, asked, answer.diverging)
    else:
        context.verdicts.explained[ANSWERED] += 1
        _note(led, fetch, asked)
        if led.cuts and led.cuts[0][0] < led.active - LINES_MS:
            _cut(context, led)
    if led.denied is not None and line.taken > led.denied + OWN_MS:
        context.verdicts.not_explained(
            line, led.name, ANSWERED, ("the broker takes itself for the leader",), None
        )
        led.denied = None
    _hwm(context, led, fetch, answer.hwm, before, answer.diverging is None)
    if line.answered > led.last_answered:
        led.last_answered = line.answered


def _heard(led: Leadership, fetch: Fetch, asked: Asked) -> bool:
    """Record a fetch that the leader may have read. Returns True if it is the follower's latest fetch."""
    known = led.heard.get(fetch.replica)
    is_last = known is None or known.taken <= fetch.line.taken
    if is_last:
        led.heard[fetch.replica] = Heard(asked.offset, fetch.epoch, fetch.line.taken)
    if led.claims:
        heard(led, fetch.replica, asked.offset, fetch.line.taken)
    led.mark(asked.offset)
    return is_last


def _note(led: Leadership, fetch: Fetch, asked: Asked) -> None:
    offset, f, line = asked.offset, fetch.replica, fetch.line
    if _heard(led, fetch, asked):
        led.aging.append((line.answered, f, offset))
    if asked.last_epoch == led.epoch:
        led.cuts.append((led.active, offset, line))
    if offset > led.least_end:
        led.least_end = offset
    if asked.last_epoch < led.epoch and offset > led.leso:
        led.leso = offset


def _cut(context: Context, led: Leadership) -> None:
    """B3. Report fetch offsets inside a batch of the leader's log: followers copy whole batches."""
    while (found := led.inside()) is not None:
        offset, line = found
        wrong = {"fetchOffset": ("where a write was appended", offset)}
        context.verdicts.not_explained(line, led.name, TAKEN, (), wrong)


def _is_too_low(led: Leadership, fetch: Fetch, hwm: int, is_noted: bool) -> bool:
    """True if the HWM in an answer is below the lowest HWM that was possible when the leader read the fetch.

    ``is_noted``: the answer is not diverging. If such an answer was delayed, the leader had recorded the fetch offset
    before it answered. Then this offset, too, raises the lowest possible HWM.
    """
    if hwm < led.least():
        return True
    known = led.heard.get(fetch.replica)
    # A follower at or below the HWM does not advance it.
    if known is None or known.offset <= hwm or not (fetch.line.waited and is_noted):
        return False
    return hwm < led.least_after(fetch.replica, known.offset, fetch.line.taken)


def _hwm(
    context: Context, led: Leadership, fetch: Fetch, hwm: int, before: Before | None, is_noted: bool
) -> None:
    """B4. Check the HWM in an answer: the leader must have had it between reading and answering the fetch."""
    line = fetch.line
    told = before.hwm if before is not None and before.leader_epoch == led.epoch else -1
    if hwm < told and not profiles.hwm_never_moves_back(before=told, after=hwm):
        context.finding(
            statements.hwm_never_moves_back, "B4", line, led.name,
            f"leader {led.broker} returned HWM {told} and then {hwm} to broker {fetch.replica}",
            f"{told - hwm} offsets, [{hwm}, {told}), that consumers may have read",
        )  # fmt: skip
    elif _is_too_low(led, fetch, hwm, is_noted):
        context.verdicts.not_explained(
            line, led.name, ANSWERED, (), {"high watermark": (led.low, hwm)}, leader=led.broker, f=fetch.replica
        )  # fmt: skip
    if led.hwm is None:
        context.verdicts.guessed["the HWM that a leader began with, or had while it was alone"] += 1
        led.told(hwm)
    claim(context, led, hwm, line, fetch.replica)
    led.aging.append((line.answered, None, hwm))


def _diverging(context: Context, led: Leadership, fetch: Fetch, asked: Asked, parted: Diverging) -> None:
    """B3. Check a diverging answer: it must have the last epoch that both logs can share, and the epoch's end offset.

    An end offset that no earlier answer showed is assumed to be right.
    """
    epoch, end = parted.epoch, parted.end_offset
    ranks = {e: i for i, e in enumerate(sorted({epoch, asked.last_epoch} - {-1}))}
    known = led.epochs_ended.get(epoch)
    offsets = sorted({end, asked.offset})
    place, at = offsets.index(end) + (end > 0), offsets.index(asked.offset) + (asked.offset > 0)
    shared = [ranks.get(epoch, 0)] * place if epoch >= 0 else []
    rest = [3] * (2 - len(shared)) if asked.last_epoch < led.epoch else []
    found = led.acting.diverges(at, ranks.get(asked.last_epoch, -1), (*shared, *rest))
    # If the logs share nothing, Kafka returns the epoch of the request, and the model no epoch. Both return offset 0.
    same_epoch = not found.end or found.epoch == ranks.get(epoch)
    agrees = found.diverging and same_epoch and found.end == len(shared) and epoch <= asked.last_epoch
    if agrees and (known is None or known == end) and epoch < led.epoch:
        context.verdicts.explained[DIVERGED] += 1
        context.verdicts.guessed["where an epoch of the leader's log ends"] += known is None
        led.epochs_ended[epoch] = end
        led.leso = max(led.leso, end)
        led.mark(end)
        return
    model = (
        (epoch, known)
        if known is not None
        else ("no divergence" if not found.diverging else (found.epoch, found.end))
    )
    context.verdicts.not_explained(
        fetch.line, led.name, DIVERGED, (), {"divergingEpoch": (model, (epoch, end))}, f=fetch.replica
    )  # fmt: skip


# --- writes ----------------------------------------------------------------------------------------------

NONE, TIMED_OUT, NOT_ENOUGH, NOT_ENOUGH_AFTER = 0, 7, 19, 20
ALL = -1


def not_led(context: Context, node: int, history: History, line: RequestLine, found: Produced) -> None:
    """Check a broker's answer to a write at a time when, by the logs, the broker did not lead."""
    if found.error == NOT_LEADER or found.error in NOT_THERE:
        context.verdicts.explained[NOT_WRITTEN] += 1
    elif found.error in (NONE, TIMED_OUT, NOT_ENOUGH, NOT_ENOUGH_AFTER):
        guards = ("the broker takes itself for the leader",)
        context.verdicts.not_explained(line, history.name, WRITTEN, guards, None, leader=node)
    else:
        context.verdicts.outside[f"write answered with error {found.error}"] += 1


def produced(context: Context, led: Leadership, line: RequestLine, found: Produced, history: History) -> None:
    """Check a leader's answer to a write, and record the appended batch."""
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
    """B6. The guards that refuse an acks=all write in a stage; and True if the ISR is too small to acknowledge one."""
    if stage.refusals is None:
        leading, _ = led.ranked(stage, {}, 0)
        nobody = leading._replace(leos=(UNHEARD,) * led.acting.slots)
        passed = nobody._replace(hwm=1, end=1)
        stage.refusals = led.acting.write_refused(nobody), led.acting.acknowledgement_refused(passed, 0)
    return stage.refusals


def _refused(context: Context, led: Leadership, line: RequestLine, stages: Sequence[Stage]) -> None:
    """B6. Check a refused write: it conforms if the ISR was under min ISR in a possible stage."""
    if any(_refusals(led, stage)[0] for stage in stages):
        context.verdicts.explained[NOT_WRITTEN] += 1
        return
    sizes = sorted({(len(s.version.state.isr), s.min_isr) for s in stages})
    context.verdicts.not_explained(
        line, led.name, NOT_WRITTEN, (), {"(ISR, min ISR)": (sizes, "NOT_ENOUGH_REPLICAS")}
    )


def _not_leader(context: Context, led: Leadership, line: RequestLine, history: History) -> None:
    """Report the answer "not the leader" to a write if, by the logs, the broker leads before and after it."""
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
        # An idempotent producer gets the offset of the batch that was appended before.
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
