"""A channel for one value at a time, which the alternating bit protocol implements."""

from highwater.language import *


class ABCorrectness(Protocol):
    """A value is sent, then received, then acknowledged, before the next value is sent."""

    def define(self):
        """The bits of the sender and the receiver, and the last values sent and received."""
        self.data, bit = Enum("d", 2), Int(0, 1)
        return Struct("State", bit=bit, ack=bit, seen=bit, sent=self.data, rcvd=self.data)

    def initial(self):
        """All bits are equal. The values are arbitrary."""
        return [{"bit": b, "ack": b, "seen": b, "sent": free, "rcvd": free} for b in (0, 1)]

    @action(d="data")
    def send(self, s, d):
        """The sender sends a value, if the last value is acknowledged."""
        require("it has arrived", s.ack == s.bit)
        s.next.sent, s.next.bit = d, 1 - s.bit

    @action()
    def receive(self, s):
        """The receiver receives the value."""
        require("it is new", s.seen != s.bit)
        s.next.seen, s.next.rcvd = s.bit, s.sent

    @action()
    def hear(self, s):
        """The sender receives the acknowledgement."""
        require("it is news", s.ack != s.seen)
        s.next.ack = s.seen
