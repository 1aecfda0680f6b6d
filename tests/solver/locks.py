"""A lock service with fencing tokens, for any number of clients, and wrong versions of it."""

from __future__ import annotations

from typing import Any

from highwater.checker.engines.solver.any_size import AnySizeResult, decide, trace
from highwater.checker.engines.solver.terms import Limits
from highwater.model.language import (
    Array,
    Index,
    Int,
    Invariant,
    Number,
    Option,
    Parameter,
    Protocol,
    Rule,
    Set,
    State,
    Struct,
    Truth,
    action,
    all_of,
    implies,
    invariant,
    require,
    size,
    step_property,
)


class Lock(Protocol):
    """A server grants one lock to one client at a time, each time with the next token."""

    name = "lock"
    any_size = ("clients",)
    parameters = {
        "clients": Parameter(3, 1, 6, "clients of the service"),
        "max_token": Parameter(3, 0, 50, "the last token"),
    }
    rules = {
        "grants_when_free": Rule("", "The server grants the lock only while no client holds it."),
        "grants_are_used_once": Rule("", "A client that goes inside no longer has the grant."),
        "tokens_grow": Rule("", "Each grant has a new token."),
        "holder_leaves": Rule("", "Only a client inside gives the lock back."),
    }

    def define(self) -> Struct:
        self.client = Index("client", self.p.clients)
        clients = Set(self.client)
        return Struct(
            "State",
            waiting=clients,
            granted=clients,
            inside=clients,
            holder=Option(self.client),
            token=Int(0, self.p.max_token, bound="max_token"),
            tokens=Array(self.client, Int(0, self.p.max_token)),
        )

    def any_initial(self, s: State) -> Truth:
        nobody = (s.waiting | s.granted | s.inside).is_empty & s.holder.is_none
        return nobody & (s.token == 0) & all_of(s.tokens[c] == 0 for c in self.client)

    @action(client="client")
    def ask(self, s: State, client: Number) -> None:
        busy = (s.waiting | s.granted | s.inside).has(client)
        require("the client has not asked", ~busy)
        s.next.waiting = s.waiting.with_(client)

    @action(client="client")
    def grant(self, s: State, client: Number) -> None:
        require("the client waits", s.waiting.has(client))
        require("no client holds the lock", s.holder.is_none, rule="grants_when_free")
        s.next.holder = client
        s.next.waiting = s.waiting.without(client)
        s.next.granted = s.granted.with_(client)
        s.next.tokens[client] = s.token + 1
        if self.on("tokens_grow"):
            s.next.token = s.token + 1

    @action(client="client")
    def enter(self, s: State, client: Number) -> None:
        require("the client has the grant", s.granted.has(client))
        if self.on("grants_are_used_once"):
            s.next.granted = s.granted.without(client)
        s.next.inside = s.inside.with_(client)

    @action(client="client")
    def leave(self, s: State, client: Number) -> None:
        require("the client is inside", s.inside.has(client), rule="holder_leaves")
        s.next.inside = s.inside.without(client)
        s.next.holder = None


@invariant("")
def one_client_is_inside(m: Lock, s: State) -> Truth:
    """At most one client is inside."""
    return size(s.inside) <= 1


@invariant("")
def no_two_clients_are_inside(m: Lock, s: State) -> Truth:
    """No two clients are inside: the same by quantifiers."""
    return all_of((a == b) | ~(s.inside.has(a) & s.inside.has(b)) for a in m.client for b in m.client)


@invariant("")
def the_holder_has_the_lock(m: Lock, s: State) -> Truth:
    """Only the holder has the grant or is inside."""
    return all_of(implies((s.granted | s.inside).has(c), s.holder.is_(c)) for c in m.client)


@invariant("")
def a_grant_is_used_once(m: Lock, s: State) -> Truth:
    """No client that is inside has another grant."""
    return (s.granted & s.inside).is_empty


@invariant("")
def tokens_are_issued(m: Lock, s: State) -> Truth:
    """No client has a token above the last one."""
    return all_of(s.tokens[c] <= s.token for c in m.client)


@step_property("")
def tokens_never_fall(m: Lock, before: State, after: State) -> Truth:
    """A client's token never decreases."""
    return all_of(before.tokens[c] <= after.tokens[c] for c in m.client)


INVARIANTS = (
    one_client_is_inside,
    no_two_clients_are_inside,
    the_holder_has_the_lock,
    a_grant_is_used_once,
    tokens_are_issued,
)


def proof(
    kind: type[Protocol] = Lock, off: str = "", more: tuple[Invariant, ...] = (), **parameters: int
) -> AnySizeResult:
    """The proof, with the rule ``off`` switched off and more invariants."""
    rules = set(kind.rules) - {off}
    traced = trace(kind, parameters, rules, (*INVARIANTS, *more), (tokens_never_fall,))
    return decide(traced, Limits())


def unproved(result: AnySizeResult) -> set[tuple[str, str]]:
    """The action and the property of each obligation that is not proved."""
    return {(d.obligation.action, d.obligation.property) for d in result.failures}


# --- wrong invariants -----------------------------------------------------------------------------------------


def _wrong(name: str, holds: Any) -> Invariant:
    return invariant("", name=name)(lambda m, s: holds(m, s))


WRONG = {
    "nobody_waits_for_a_held_lock": (lambda m, s: s.holder.is_none | s.waiting.is_empty, "grant"),
    "two_clients_wait_at_most": (lambda m, s: size(s.waiting) <= 2, "ask"),
    "the_lock_is_free": (lambda m, s: s.holder.is_none, "grant"),
    "every_client_waits_or_is_served": (
        lambda m, s: all_of((s.waiting | s.granted | s.inside).has(c) for c in m.client),
        "leave",
    ),
    "fewer_wait_than_have_had_the_lock": (lambda m, s: size(s.waiting) <= s.token, "ask"),
}
"""Wrong invariants, each with an action that does not preserve it."""


def wrong(name: str) -> Invariant:
    """The wrong invariant of this name."""
    return _wrong(name, WRONG[name][0])


# --- actions that depend on the number of clients -----------------------------------------------------------


class Majority(Lock):
    """An action compares a count with the number of clients."""

    @action(client="client")
    def vote(self, s: State, client: Number) -> None:
        require("most clients wait", size(s.waiting) * 2 > self.p.clients)
        s.next.waiting = s.waiting.without(client)


class ThirdClient(Lock):
    """An action treats the third client unlike the others."""

    @action(client="client")
    def push(self, s: State, client: Number) -> None:
        require("it is not the third", client != 2)
        s.next.waiting = s.waiting.with_(client)


class OneByOne(Lock):
    """An action writes the clients one by one."""

    @action()
    def clear(self, s: State) -> None:
        for client in self.client:
            s.next.tokens[client] = s.token


class Listed(Lock):
    """An action has a case for each client by number."""

    @action(number="numbers")
    def push(self, s: State, number: int) -> None:
        s.next.waiting = s.waiting.with_(number)

    @property
    def numbers(self) -> list[int]:
        return [0, 1, 2]


class Guessed(Lock):
    """An action reads the size of the index itself."""

    @action(client="client")
    def push(self, s: State, client: Number) -> None:
        if self.client.size == 7:
            require("never", False)
        s.next.waiting = s.waiting.with_(client)


class Hidden(Lock):
    """The number of turns of a loop is the number of clients."""

    @action()
    def spin(self, s: State) -> None:
        turns = sum(1 for _ in range(self.p.clients))
        require("there are turns left", s.token < turns)
        s.next.holder = None


IRREGULAR = {
    Majority: "vote", ThirdClient: "push", OneByOne: "clear", Listed: "push", Guessed: "push", Hidden: "spin",
}  # fmt: skip
"""Protocols with an action that depends on the number of clients, and that action."""
