"""Small protocols that tests run engines on. Together they use every type and every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Messages,
    Model,
    Option,
    Parameter,
    Protocol,
    Rule,
    Seq,
    Set,
    State,
    Struct,
    action,
    all_of,
    any_of,
    greatest,
    implies,
    invariant,
    least,
    one_of,
    otherwise,
    require,
    size,
    total,
    when,
    where,
)


class Counters(Protocol):
    """Independent counters: ``(top + 1) ** counters`` states, the last of them a dead end."""

    name = "counters"
    symmetric = ("counter",)
    parameters = {
        "counters": Parameter(3, 1, 8, "how many"),
        "top": Parameter(3, 1, 200, "the last value of each"),
    }

    def define(self) -> Struct:
        self.counter = Index("counter", self.p.counters)
        return Struct("State", values=Array(self.counter, Int(0, self.p.top)))

    def initial(self) -> list[dict[str, Any]]:
        return [{"values": [0] * self.p.counters}]

    @action(says="counter {counter} goes up", counter="counter")
    def up(self, s: State, counter: Any) -> None:
        require("below the top", s.values[counter] < self.p.top)
        s.next.values[counter] = s.values[counter] + 1


def counters(count: int, top: int, *invariants: Any) -> Model:
    """A model of this many counters."""
    return Model(Counters({"counters": count, "top": top}), invariants)


@invariant("counters")
def never_all_at_top(m: Counters, s: State) -> Any:
    """Not all counters are at the top: violated only in the last state, ``counters * top`` steps away."""
    return ~all_of(s.values[c] == m.p.top for c in m.counter)


@invariant("counters")
def first_leads(m: Counters, s: State) -> Any:
    """The first counter is at most two behind the last one; not symmetric in the counters."""
    return s.values[0] + 2 >= s.values[m.p.counters - 1]


class Dice(Protocol):
    """Three actions that are always enabled."""

    name = "dice"

    def define(self) -> Struct:
        return Struct("State", last=Int(0, 3))

    def initial(self) -> list[dict[str, Any]]:
        return [{"last": 0}]

    @action()
    def one(self, s: State) -> None:
        s.next.last = 1

    @action()
    def two(self, s: State) -> None:
        s.next.last = 2

    @action()
    def three(self, s: State) -> None:
        s.next.last = 3


class Everything(Protocol):
    """One field of each type, with actions that use every operation, declared bounds included."""

    name = "everything"
    parameters = {"nodes": Parameter(3, 2, 5, "size of the index")}
    rules = {
        "undeclared": Rule("test", "The number may leave its type, without a declared bound."),
        "extra": Rule("test", "An action more."),
        "errors": Rule(
            "test", "Actions that divide by zero, write twice, or leave their types in some states."
        ),
    }

    def define(self) -> Struct:
        self.node = Index("node", self.p.nodes)
        self.colour = Enum("Colour", "RED GREEN BLUE")
        self.nodes = Set(self.node)
        self.pair = Struct("Pair", who=self.node, flag=Bool, much=Int(-3, 4, bound="much"))
        self.amount = Int(-2, 2)
        self.messages = Messages(
            ask=dict(who=self.node, much=Int(-1, 7, bound="much"), of=Option(self.colour)),
            told=dict(who=self.node, set=Set(self.colour)),
        )
        self.asked = self.messages.of("ask")
        return Struct(
            "State",
            flag=Bool,
            number=Int(-5, 5, bound=None if self.on("undeclared") else "number"),
            large=Int(0, (1 << 40) - 1, bound="large"),
            colour=self.colour,
            set=self.nodes,
            maybe=Option(self.node),
            parcel=Option(self.pair),
            row=Array(self.node, self.pair),
            log=Seq(self.pair, 3, bound="log"),
            sets=Array(self.node, self.nodes),
            paint=Set(self.colour),
            post=self.messages,
            copies=Messages(duplicates=2, note=dict(to=self.colour, flag=Bool)),
            inbox=Array(self.node, Messages(ping=dict(who=self.node), stop={})),
            pots=Array(self.colour, Struct("Pot", full=Bool, lent=Option(self.node))),
        )

    def initial(self) -> list[dict[str, Any]]:
        pair = {"who": 1, "flag": False, "much": -1}
        n = self.p.nodes
        return [
            {
                "flag": flag,
                "number": 0,
                "large": 7,
                "colour": "GREEN",
                "set": [0],
                "maybe": None,
                "parcel": None,
                "row": [pair] * n,
                "log": [],
                "sets": [[]] * n,
                "paint": ["RED"],
                "post": {},
                "copies": {"note": [{"to": "RED", "flag": True}]},
                "inbox": [{}] * n,
                "pots": [{"full": False, "lent": None}] * 3,
            }
            for flag in (False, True)
        ]

    @action(amount="amount")
    def add(self, s: State, amount: Any) -> None:
        require("an odd colour or the flag", (s.colour != "RED") | s.flag)
        s.next.number = s.number + amount + where(s.flag, 1, 0)
        s.next.large = s.large + s.large
        s.next.flag = ~s.flag & (s.number < 3)

    @action(who="node")
    def join(self, s: State, who: Any) -> None:
        require("not in yet", ~s.set.has(who))
        s.next.set = s.set.with_(who) - where(s.flag, s.sets[who], self.nodes.zero())
        s.next.maybe = where(s.maybe.is_none, who, s.maybe)
        s.next.sets[who] = s.set | s.sets[who]
        s.next.colour = where(size(s.set) == 1, self.colour.BLUE, where(s.maybe.is_(who), "RED", s.colour))

    @action()
    def leave(self, s: State) -> None:
        require("someone is there", s.maybe.is_some & s.set.has(s.maybe))
        s.next.set = s.set.without(s.maybe.value)
        s.next.maybe = None
        s.next.row[s.maybe.value].much = s.row[s.maybe.value].much + least(1, s.number)

    @action(who="node", flag="flags")
    def pack(self, s: State, who: Any, flag: Any) -> None:
        require("room", s.parcel.is_none | any_of(s.row[n].flag for n in self.node))
        s.next.parcel = self.pair(who=who, flag=flag, much=greatest(s.number, -3) - where(s.number > 4, 1, 0))
        s.next.row[who].flag = ~s.row[who].flag

    flags = (False, True)

    @action()
    def post(self, s: State) -> None:
        require("something is packed", s.parcel.is_some)
        s.next.log = s.log.append(s.parcel.value)
        s.next.parcel = None
        s.next.row[s.parcel.value.who] = s.parcel.value

    @action(n="node")
    def truncate(self, s: State, n: Any) -> None:
        require("longer", s.log.length > n)
        s.next.log = s.log.truncate(n)
        s.next.number = total(s.row[m].flag for m in self.node) - s.log.last.much
        s.next.set = s.set & s.sets[s.log[n].who]

    @action(rule="errors", amount="amount")
    def share(self, s: State, amount: Any) -> None:
        require("a guard that divides", s.flag | (s.number % amount != 1))
        s.next.number = where(s.flag, s.number * amount, (s.number - 7) // s.row[0].much)
        s.next.row[0].much = -s.number % s.row[1].much - s.number % 3
        s.next.large = s.large // (s.row[0].who + 1) % 1000

    @action(rule="errors", pot="colour")
    def paint(self, s: State, pot: Any) -> None:
        following = one_of("next", ["RED", "BLUE"])
        require("not that colour", ~s.paint.has(pot) | s.pots[s.colour].full)
        s.next.paint = s.paint.with_(s.colour).without(pot)
        s.next.pots[pot].lent = s.maybe
        with when(s.flag):
            s.next.pots[s.colour].lent = None
        with when(s.colour != "BLUE"):
            s.next.pots[s.colour].full = s.flag
            s.next.colour = following
        with otherwise(size(s.paint) > 1):
            s.next.colour = pot

    @action(rule="errors", who="node", of="colour")
    def ask(self, s: State, who: Any, of: Any) -> None:
        s.next.post.send(
            "ask", who=who, much=s.number + 2, of=where(s.flag, Option(self.colour).some(of), None)
        )
        s.next.copies.send("note", to=s.colour, flag=s.flag)
        with when(s.copies.has("note", to=of)):
            s.next.copies.discard("note", to=of, flag=True)
        s.next.inbox[who].send("ping", who=s.maybe.value)
        s.next.inbox[s.row[who].who].send("stop")

    @action(rule="errors", who="node")
    def answer(self, s: State, who: Any) -> None:
        require("asked", s.post.count("ask", who=who, much=s.number) > where(s.flag, 1, 0))
        s.next.post.send("told", who=who, set=s.paint)
        s.next.post.receive("ask", who=who, much=s.number, of=None)
        s.next.number = s.copies.count("note", flag=s.flag) - s.post.count("told", set=s.paint)
        s.next.flag = any_of(there & (m.who == s.maybe.value) for m, there in s.post.all("told", who=who))
        s.next.inbox[who].discard("ping", who=where(s.inbox[s.maybe.value].has("stop"), who, s.log[0].who))

    @action(rule="extra")
    def never(self, s: State) -> None:
        require("impossible", (s.number > 4) & (s.number < 4))
        s.next.flag = True


@invariant("test")
def log_or_parcel(m: Everything, s: State) -> Any:
    """Some random states violate it."""
    return implies(s.log.length > 1, s.log[0].flag | (s.log[1].who != s.maybe.value))


@invariant("test")
def sets_are_bounded(m: Everything, s: State) -> Any:
    """Violated if a set of the array is full."""
    return all_of(~(s.sets[n] == m.nodes.all()) for n in m.node)


def stepping(base: type[Protocol], body: Callable[[Any, State], object]) -> type[Protocol]:
    """The protocol with one more action, ``step``, that calls ``body(protocol, state)``."""

    class Stepping(base):  # type: ignore[misc, valid-type]
        @action()
        def step(self, s: State) -> None:
            body(self, s)

    return Stepping
