"""Small protocols, and the model of one mutant."""

from __future__ import annotations

import copy

from highwater.checker.comparing.mutants import MutatedModel


def at(model: MutatedModel, number: int) -> MutatedModel:
    """The model whose initial states choose one mutant; 0 is the unmutated protocol."""
    found = copy.copy(model)
    own = [state[: model.own_leaves] for state in model.initial]
    vars(found).update(start=None, initial=[(*state, *model.constants(number)) for state in own])
    return found


COUNTER = """
from highwater.model.language import Bool, Index, Int, Parameter, Protocol, Struct, action, invariant, require

@invariant("test")
def it_stays_down(m, s):
    return ~s.up

class Counter(Protocol):
    name = "counter"
    parameters = {"top": Parameter(3, 1, 7, "the most that it counts")}
    invariants = (it_stays_down,)

    def define(self):
        self.side = Index("side", 2)
        return Struct("State", up=Bool, count=Int(0, self.p.top, bound="top"), side=self.side)

    def initial(self):
        return [{}]

    @action(says="it goes up")
    def rise(self, s):
        s.next.up = True

    @action(says="it counts on {side}", side="side")
    def add(self, s, side):
        require("it is its side", s.side == side)
        s.next.count = s.count + 1

    @action(says="it counts, on side 0 below the bound", side="side")
    def skip(self, s, side):
        require("it is below", (s.count <= 3) | (side == 1))
        s.next.count = s.count + 1
"""
LAMP = '''
from highwater.model.language import (
    Bool, Enum, Protocol, Struct, action, eventually, invariant, require, weak, where
)

Side = Enum("Side", "NONE LEFT RIGHT")

@invariant("test")
def it_is_seen_by_its_light(m, s):
    """Nobody sees it in the dark."""
    return ~s.seen | s.on

@eventually("test", fair=weak("switch"))
def it_gets_light(m, s):
    """Somebody switches it on."""
    return s.on

class Lamp(Protocol):
    """A lamp that is switched on, seen and turned."""

    name = "lamp"
    invariants = (it_is_seen_by_its_light,)
    liveness = (it_gets_light,)

    def define(self):
        return Struct("State", on=Bool, seen=Bool, side=Side)

    def initial(self):
        return [{}]

    @action(says="it is switched on")
    def switch(self, s):
        require("it is off", ~s.on)
        s.next.on = True

    @action(says="it is seen")
    def look(self, s):
        require("it is on", s.on)
        s.next.seen = True

    @action(says="it is turned")
    def turn(self, s):
        require("nobody sees it", ~(s.seen & s.on))
        require("it was not turned", s.side == "NONE")
        s.next.side = where(s.on, Side.LEFT, Side.RIGHT)
'''
