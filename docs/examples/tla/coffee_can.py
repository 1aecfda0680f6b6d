"""The coffee can: two beans are taken out and one is put in; what colour the last one has depends on the white ones."""

from highwater.language import *

FAIR = weak(either("black_black", "white_white", "black_white"))


@eventually("EventuallyTerminates", fair=FAIR)
def one_bean_is_left(m, s):
    """It comes to an end."""
    return enabled("done")


@eventually("TerminationHypothesis", fair=FAIR)
def even_white_ends_black(m, s):
    """An even number of white beans: the last one is black."""
    return s.white % 2 == 0, (s.black == 1) & (s.white == 0)


@eventually("TerminationHypothesis", fair=FAIR)
def odd_white_ends_white(m, s):
    """An odd one: it is white."""
    return s.white % 2 == 1, (s.black == 0) & (s.white == 1)


@step_property("MonotonicDecrease")
def beans_become_fewer(m, before, after):
    """Each step takes a bean away."""
    return after.black + after.white < before.black + before.white


@step_property("LoopInvariant")
def white_stays_even_or_odd(m, before, after):
    """No step changes whether the white ones are an even number."""
    return before.white % 2 == after.white % 2


class CoffeeCan(Protocol):
    """There are always beans enough to put in."""

    parameters = {"beans": Parameter(100, 1, 3000, "beans in the can at first, at most")}
    step_properties = (beans_become_fewer, white_stays_even_or_odd)
    liveness = (one_bean_is_left, even_white_ends_black, odd_white_ends_white)

    def define(self):
        """The beans of each colour."""
        return Struct("State", black=Int(0, self.p.beans), white=Int(0, self.p.beans))

    def initial(self):
        """Any number of each colour."""
        return [{"black": free, "white": free}]

    def initially(self, s):
        """Together one or more, and not too many."""
        return (s.black + s.white >= 1) & (s.black + s.white <= self.p.beans)

    @action()
    def black_black(self, s):
        """Two black ones go, a black one comes."""
        require("there are two", s.black >= 2)
        s.next.black = s.black - 1

    @action()
    def white_white(self, s):
        """Two white ones go, a black one comes."""
        require("there are two", s.white >= 2)
        s.next.black, s.next.white = s.black + 1, s.white - 2

    @action()
    def black_white(self, s):
        """One of each go, the white one comes back."""
        require("there is one of each", (s.black >= 1) & (s.white >= 1))
        s.next.black = s.black - 1

    @action()
    def done(self, s):
        """One is left."""
        require("one is left", s.black + s.white == 1)
