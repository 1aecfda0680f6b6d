"""HWMs that were told and cannot be the leader's: which rule that breaks, and for whom it did not wait."""

from __future__ import annotations

from highwater.invariants import statements
from highwater.traces.requests.context import Context
from highwater.traces.requests.leading import LINES_MS, Claim, Leadership
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.stages import OWN_MS, Stage
from highwater.traces.requests.verdicts import ACKNOWLEDGED, ANSWERED
from highwater.traces.rules import log_rules


def claim(context: Context, led: Leadership, hwm: int, line: RequestLine, follower: int | None) -> None:
    """A follower was told the HWM; or, without a follower, it was at least so much: by now, or when more is read."""
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
    """A fetch was read that can have been noted before a claim was made: it was taken up by then."""
    for one in led.claims:
        is_before = follower != one.follower and taken <= one.line.answered + OWN_MS
        if is_before and offset > one.leos.get(follower, -1):
            one.leos[follower] = offset
            one.moves += 1


def recheck(context: Context, led: Leadership, ends: bool = False) -> None:
    """Drop the claims that are possible by now; judge those whose time is over.

    Where the log of the leader ends before that, lines of requests that were under way may be missing: guessed.
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
    what = f"leader {led.broker} told the HWM {claim.hwm}" if claim.exact else (
        f"leader {led.broker} acknowledged offset {claim.hwm - 1}"
    )  # fmt: skip
    risk = f"offsets [{high}, {claim.hwm}) are on fewer replicas than an election counts on"
    facts = {"leader_epoch": led.epoch, "hwm": claim.hwm, "possible": high}
    if not claim.exact:
        copies = 1 + sum(offset >= claim.hwm for offset in claim.leos.values())
        least = min(stage.min_isr for stage in led.possible(claim.line.taken))
        kept = log_rules.acknowledged_has_copies(hwm=high, offset=claim.hwm - 1, copies=copies, min_isr=least)
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
            statements.hwm_stands_under_min_isr, "966.1", claim.line, led.name, text, risk, facts=facts
        )
        return
    waiting = _not_reached(led, claim)
    rule = "B4"
    if any(_reaches(led, claim, stage, proposed=False) for stage in led.possible(claim.line.taken)):
        rule = "B4, B7"
    text = (
        f"{what} in leader epoch {led.epoch}, and has to wait for {', '.join(waiting)}"
        f"{', proposed for the ISR' if rule != 'B4' else ''}: at most {high}"
    )
    context.finding(statements.hwm_waits_for_isr, rule, claim.line, led.name, text, risk, facts=facts)


def _under_min_isr(led: Leadership, claim: Claim) -> tuple[int, int] | None:
    """The size of an ISR and min ISR, where a claim is too high only as the one is under the other (966.1)."""
    for stage in led.possible(claim.line.taken):
        size, least = len(stage.version.state.isr), stage.min_isr
        if not log_rules.hwm_stands_under_min_isr(isr_size=size, min_isr=least) and _reaches(
            led, claim, stage, min_isr=1
        ):
            return size, least
    return None


def _reaches(
    led: Leadership, claim: Claim, stage: Stage, min_isr: int | None = None, proposed: bool = True
) -> bool:
    """Whether the HWM could be as claimed in a stage, were it not for min ISR, or for what is proposed."""
    leading, offsets = led.ranked(stage, claim.leos, claim.base)
    if min_isr is not None:
        leading = leading._replace(min_isr=min_isr)
    if not proposed:
        leading = leading._replace(proposed=-1)
    return offsets[led.acting.settled(leading)] >= claim.hwm


def _not_reached(led: Leadership, claim: Claim) -> list[str]:
    """Who is waited for in every possible stage, and was not there."""
    stages = led.possible(claim.line.taken)
    members = set.intersection(*({*s.version.state.isr, *(s.proposed or ())} for s in stages))
    found = []
    for broker in sorted(members - {led.broker}):
        offset = claim.leos.get(broker, -1)
        if not log_rules.hwm_waits_for_isr(leo=offset, hwm=claim.hwm):
            at = f"at {offset}" if broker in claim.leos else "which has not fetched"
            found.append(f"broker {broker} ({at})")
    return found or ["its ISR"]
