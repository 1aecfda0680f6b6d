"""The coffee can: two beans are taken out and one is put in. The last bean's colour depends on the white beans."""

from highwater.language import *

FAIR = weak(either("black_black", "white_white", "black_white"))


@eventually("EventuallyTerminates", fair=FAIR)
def one_bean_is_left(m, s):
    """Eventually one bean is left."""
    return enabled("done")


@eventually("TerminationHypothesis", fair=FAIR)
def even_white_ends_black(m, s):
    """If the number of white beans is even, the last bean is black."""
    return s.white % 2 == 0, (s.black == 1) & (s.white == 0)


@eventually("TerminationHypothesis", fair=FAIR)
def odd_white_ends_white(m, s):
    """If the number of white beans is odd, the last bean is white."""
    return s.white % 2 == 1, (s.black == 0) & (s.white == 1)


@step_property("MonotonicDecrease")
def beans_become_fewer(m, before, after):
    """Each step makes the number of beans smaller."""
    return after.black + after.white < before.black + before.white


@step_property("LoopInvariant")
def white_stays_even_or_odd(m, before, after):
    """No step changes the parity of the number of white beans."""
    return before.white % 2 == after.white % 2


class CoffeeCan(Protocol):
    """There is no limit to the black beans that can be put in."""

    parameters = {"beans": Parameter(100, 1, 3000, "beans in the can at first, at most")}
    step_properties = (beans_become_fewer, white_stays_even_or_odd)
    liveness = (one_bean_is_left, even_white_ends_black, odd_white_ends_white)

    def define(self):
        """The number of beans of each colour."""
        return Struct("State", black=Int(0, self.p.beans), white=Int(0, self.p.beans))

    def initial(self):
        """Any number of beans of each colour."""
        return [{"black": free, "white": free}]

    def initially(self, s):
        """There are between 1 and `beans` beans."""
        return (s.black + s.white >= 1) & (s.black + s.white <= self.p.beans)

    @action()
    def black_black(self, s):
        """Two black beans are taken out, and a black bean is put in."""
        require("there are two", s.black >= 2)
        s.next.black = s.black - 1

    @action()
    def white_white(self, s):
        """Two white beans are taken out, and a black bean is put in."""
        require("there are two", s.white >= 2)
        s.next.black, s.next.white = s.black + 1, s.white - 2

    @action()
    def black_white(self, s):
        """A black and a white bean are taken out, and the white bean is put back."""
        require("there is one of each", (s.black >= 1) & (s.white >= 1))
        s.next.black = s.black - 1

    @action()
    def done(self, s):
        """One bean is left."""
        require("one is left", s.black + s.white == 1)
