"""A channel for one value at a time: what the alternating bit implements."""

from highwater.language import *


class ABCorrectness(Protocol):
    """A value is sent, then received, then known to be received; nothing is in between."""

    def define(self):
        """The sender's bits and the receiver's, the last value of each."""
        self.data, bit = Enum("d", 2), Int(0, 1)
        return Struct("State", bit=bit, ack=bit, seen=bit, sent=self.data, rcvd=self.data)

    def initial(self):
        """Any bit, which all have; any values."""
        return [{"bit": b, "ack": b, "seen": b, "sent": free, "rcvd": free} for b in (0, 1)]

    @action(d="data")
    def send(self, s, d):
        """The last value has arrived: the next one."""
        require("it has arrived", s.ack == s.bit)
        s.next.sent, s.next.bit = d, 1 - s.bit

    @action()
    def receive(self, s):
        """The value arrives."""
        require("it is new", s.seen != s.bit)
        s.next.seen, s.next.rcvd = s.bit, s.sent

    @action()
    def hear(self, s):
        """So the sender knows."""
        require("it is news", s.ack != s.seen)
        s.next.ack = s.seen
