"""A small protocol with most operations that have mutants; its properties detect many mutants, not all."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Array,
    Bool,
    Checks,
    Enum,
    Index,
    Int,
    Number,
    Parameter,
    Protocol,
    Rule,
    Seq,
    Set,
    State,
    Struct,
    Truth,
    action,
    all_of,
    any_of,
    cases,
    first,
    greatest,
    implies,
    invariant,
    least,
    least_by,
    otherwise,
    require,
    size,
    step_property,
    under,
    when,
    where,
)

Answer = Enum("Answer", "NONE YES NO")


@invariant("test")
def a_holder_is_known(m: Library, s: State) -> Truth:
    return implies(~s.holders.is_empty, all_of(~s.holders.has(r) | s.joined.has(r) for r in m.reader))


@invariant("test")
def one_holder(m: Library, s: State) -> Truth:
    return size(s.holders) <= 1


@invariant("test")
def the_queue_is_short(m: Library, s: State) -> Truth:
    return ~any_of(s.waiting.has(r) & s.holders.has(r) for r in m.reader)


@step_property("test")
def it_closes_after_a_yes(m: Library, before: State, after: State) -> Truth:
    return implies(after.closed & ~before.closed, before.answer == "YES")


class Library(Protocol):
    """One book, two readers: they join, wait, borrow and return it."""

    name = "library"
    parameters = {
        "readers": Parameter(2, 1, 3, "readers"),
        "most": Parameter(2, 1, 3, "times that one may borrow"),
    }
    rules = {"polite": Rule("test", "Who holds the book does not wait.")}
    invariants = (a_holder_is_known, one_holder, the_queue_is_short)
    step_properties = (it_closes_after_a_yes,)

    def define(self) -> Struct:
        self.reader = Index("reader", self.p.readers)
        self.card = Struct("Card", borrowed=Int(0, self.p.most, bound="most"), good=Bool)
        return Struct(
            "State",
            joined=Set(self.reader),
            holders=Set(self.reader),
            waiting=Seq(self.reader, self.p.readers),
            cards=Array(self.reader, self.card),
            answer=Answer,
            closed=Bool,
        )

    def initial(self) -> list[dict[str, Any]]:
        return [{}]

    @action(says="{r} joins", r="reader")
    def join(self, s: State, r: Number) -> None:
        require("has not joined", ~s.joined.has(r))
        s.next.joined = s.joined.with_(r)
        s.next.cards[r] = s.cards[r].replace(good=True, borrowed=0)

    @action(says="{r} waits", r="reader")
    def wait(self, s: State, r: Number) -> None:
        require("has joined and does not wait", s.joined.has(r) & ~s.waiting.has(r) & ~s.closed)
        require("is polite", under("polite", ~s.holders.has(r)))
        s.next.waiting = s.waiting.append(r)

    @action(says="the first one borrows")
    def borrow(self, s: State) -> None:
        """The first reader who waits gets the book if nobody holds it."""
        checks = Checks(Answer.YES, on=self.on)
        checks.check("somebody waits", ~s.waiting.is_empty, Answer.NO)
        checks.check("nobody holds it", s.holders.is_empty, Answer.NO)
        require("something changes", checks.passed | (s.answer != Answer.NO))
        s.next.answer = checks.answer
        who = s.waiting.head
        card = s.cards[who]
        more = where(checks.passed, card.borrowed + 1, card.borrowed)
        s.next.cards = s.cards.set(who, card.replace(borrowed=more, good=card.good & (more < self.p.most)))
        with when(checks.passed):
            s.next.holders = s.holders | Set(self.reader).of(lambda r: who == r)
            s.next.waiting = s.waiting.tail
        with otherwise():
            s.next.closed = ~s.closed & (s.answer == "YES")

    @action(says="{r} returns the book to {other}", r="reader", other="reader")
    def give(self, s: State, r: Number, other: Number) -> None:
        """A reader passes the book on; a closed library takes it back."""
        require("they are two, or it goes back", (r != other) | s.closed)
        require("all is in order", all_of([s.holders.has(r), s.joined.has(other), ~s.waiting.has(other)]))
        s.next.holders = where(s.closed, s.holders.without(r), (s.holders - s.holders).with_(other))
        s.next.answer = cases(
            (s.closed, Answer.NONE), (s.cards[r].borrowed >= 1, Answer.YES), otherwise=Answer.NO
        )

    @action(says="cards are looked at")
    def count(self, s: State) -> None:
        require("it is open, and was asked", ~s.closed & s.answer.in_("YES", "NO"))
        lowest = least(*(s.cards[r].borrowed for r in self.reader))
        highest = greatest(*(s.cards[r].borrowed for r in self.reader))
        require("they differ", highest - lowest > 0)
        for r in self.reader:
            require(f"reader {int(r)} holds it or waits not", s.holders.has(r) | ~s.waiting.has(r))
        poor = least_by(self.reader, lambda r: s.cards[r].borrowed, among=lambda r: s.joined.has(r))
        rich = first(self.reader, lambda r: s.cards[r].borrowed == highest)
        require("both are there", poor.is_some & rich.is_some)
        s.next.cards[poor.value].good = s.holders <= s.joined
        s.next.answer = Answer.NONE
