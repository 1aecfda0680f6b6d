"""HWMs that were told and cannot be the leader's: which rule that breaks, and for whom it did not wait."""

from __future__ import annotations

from highwater.invariants import statements
from highwater.traces import log_rules
from highwater.traces.requests.context import Context
from highwater.traces.requests.leading import LINES_MS, TOP, Claim, Leadership
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.verdicts import ACKNOWLEDGED, ANSWERED


def claim(context: Context, led: Leadership, hwm: int, line: RequestLine, exact: bool) -> None:
    """The HWM was told, or was at least so much where that is not ``exact``: now, or when more lines are there."""
    found = Claim(hwm, line, exact, led.active)
    if not led.is_possible(found, line.taken):
        led.claims.append(found)
    if led.claims:
        recheck(context, led, line.taken)


def recheck(context: Context, led: Leadership, since: float, ends: bool = False) -> None:
    """Drop the claims that are possible by now; judge those whose time is over.

    Where the log of the leader ends before that, lines of requests that were under way may be missing: guessed.
    """
    open_claims = [claim for claim in led.claims if not led.is_possible(claim, since)]
    led.claims = []
    for claim in open_claims:
        if claim.since + LINES_MS < led.active:
            _broken(context, led, claim)
        elif ends:
            context.verdicts.guessed["a fetch that was under way where the log ends"] += 1
        else:
            led.claims.append(claim)


def _broken(context: Context, led: Leadership, claim: Claim) -> None:
    high = led.greatest(claim.line.taken)
    if high is None or claim.hwm <= high:
        difference = {"high watermark": (led.hwm, claim.hwm)}
        context.verdicts.not_explained(claim.line, led.name, ANSWERED, (), difference, leader=led.broker)
        return
    what = f"leader {led.broker} told the HWM {claim.hwm}" if claim.exact else (
        f"leader {led.broker} acknowledged offset {claim.hwm - 1}"
    )  # fmt: skip
    risk = f"offsets [{high}, {claim.hwm}) are on fewer replicas than an election counts on"
    facts = {"leader_epoch": led.epoch, "hwm": claim.hwm, "possible": high}
    if not claim.exact:
        copies = 1 + sum(heard.offset >= claim.hwm for heard in led.heard.values())
        least = min(stage.min_isr for stage in led.possible())
        kept = log_rules.acknowledged_has_copies(hwm=high, offset=claim.hwm - 1, copies=copies, min_isr=least)
        if not kept:
            text = f"{what} in leader epoch {led.epoch}; its HWM was at most {high}, and {copies} replicas had it"
            context.finding(
                statements.acknowledged_has_copies, "B6", claim.line, led.name, text, risk, facts=facts
            )
            return
        context.verdicts.not_explained(claim.line, led.name, ACKNOWLEDGED, (), {"hwm": (high, claim.hwm)})
        return
    opened = _greatest(led, min_isr=1)
    if opened is None or opened >= claim.hwm:
        least = min(stage.min_isr for stage in led.possible())
        sizes = max(len(stage.version.state.isr) for stage in led.possible())
        assert not log_rules.hwm_stands_under_min_isr(isr_size=sizes, min_isr=least)
        text = f"{what} while its ISR had {sizes} members, under min ISR {least}"
        context.finding(
            statements.hwm_stands_under_min_isr, "966.1", claim.line, led.name, text, risk, facts=facts
        )
        return
    waiting = _not_reached(led, claim.hwm)
    rule = "B4"
    unproposed = _greatest(led, proposed=False)
    if unproposed is None or unproposed >= claim.hwm:
        rule = "B4, B7"
    text = (
        f"{what} in leader epoch {led.epoch}, and has to wait for {', '.join(waiting)}"
        f"{', proposed for the ISR' if rule != 'B4' else ''}: at most {high}"
    )
    context.finding(statements.hwm_waits_for_isr, rule, claim.line, led.name, text, risk, facts=facts)


def _greatest(led: Leadership, min_isr: int | None = None, proposed: bool = True) -> int | None:
    """The greatest HWM, were it not for min ISR, or for what is proposed; None where nothing bounds it."""
    leos = {broker: heard.offset for broker, heard in led.heard.items() if broker in led.slots}
    found = led.hwm or 0
    for stage in led.possible():
        leading, offsets = led.ranked(stage, leos, led.hwm or 0)
        if min_isr is not None:
            leading = leading._replace(min_isr=min_isr)
        if not proposed:
            leading = leading._replace(proposed=-1)
        found = max(found, offsets[led.acting.settled(leading)])
    return None if found == TOP else found


def _not_reached(led: Leadership, hwm: int) -> list[str]:
    """Who is waited for in every possible stage, and was not there."""
    stages = led.possible()
    members = set.intersection(*({*s.version.state.isr, *(s.proposed or ())} for s in stages))
    found = []
    for broker in sorted(members - {led.broker}):
        heard = led.heard.get(broker)
        offset = -1 if heard is None else heard.offset
        if not log_rules.hwm_waits_for_isr(leo=offset, hwm=hwm):
            found.append(f"broker {broker} ({'at ' + str(offset) if heard else 'which has not fetched'})")
    return found or ["its ISR"]


__all__ = ["claim", "recheck"]
