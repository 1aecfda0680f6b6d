"""The alternating bit protocol: over lossy channels, a value is sent again until its bit is acknowledged."""

from ab_correctness import ABCorrectness

from highwater.language import *

FAIR = weak("send_again", "acknowledge") + strong("receive", "hear")


@leads_to("SentLeadsToRcvd", fair=FAIR, d="data")
def arrives(m, s, d):
    """A value that is sent is eventually received."""
    return (s.sent == d) & (s.bit != s.ack), s.rcvd == d


@refines(ABCorrectness, "ABC!ABCSpec")
def is_a_channel(m, s):
    """The protocol implements a channel for one value at a time."""
    return dict(bit=s.bit, ack=s.ack, seen=s.seen, sent=s.sent, rcvd=s.rcvd)


class AlternatingBit(Protocol):
    """Bits are numbers. Steps that make a queue longer than `queue` are pruned."""

    parameters = {"queue": Parameter(2, 1, 4, "messages in a channel")}
    liveness = (arrives,)
    step_properties = (is_a_channel,)

    def define(self):
        """The channels, the bits of sender and receiver, and the last values sent and received."""
        self.data, bit = Enum("d", 2), Int(0, 1)
        message = Struct("Message", bit=bit, value=self.data)
        queues = dict(
            msgs=Seq(message, self.p.queue, bound="queue"), acks=Seq(bit, self.p.queue, bound="queue")
        )
        return Struct("State", bit=bit, ack=bit, seen=bit, sent=self.data, rcvd=self.data, **queues)

    def initial(self):
        """All bits are equal. The values are arbitrary."""
        return [{"bit": b, "ack": b, "seen": b, "sent": free, "rcvd": free} for b in (0, 1)]

    @action(d="data")
    def send(self, s, d):
        """The sender sends a value, if the last value is acknowledged."""
        require("it has arrived", s.ack == s.bit)
        s.next.sent, s.next.bit = d, 1 - s.bit
        s.next.msgs = s.msgs.append(dict(bit=1 - s.bit, value=d))

    @action()
    def send_again(self, s):
        """The sender sends the last value again."""
        require("it has not arrived", s.ack != s.bit)
        s.next.msgs = s.msgs.append(dict(bit=s.bit, value=s.sent))

    @action()
    def receive(self, s):
        """The receiver takes a value from its channel."""
        require("there is one", ~s.msgs.is_empty)
        m, s.next.msgs = s.msgs.pop()
        s.next.seen, s.next.rcvd = m.bit, m.value

    @action()
    def acknowledge(self, s):
        """The receiver sends its bit."""
        s.next.acks = s.acks.append(s.seen)

    @action()
    def hear(self, s):
        """The sender takes an acknowledgement from its channel."""
        require("there is one", ~s.acks.is_empty)
        s.next.ack, s.next.acks = s.acks.pop()

    @action()
    def lose(self, s):
        """Any value or acknowledgement in a channel is lost."""
        queue, i = one_of("queue", ["msgs", "acks"]), one_of("i", range(self.p.queue))
        require("there is one", getattr(s, queue).length > i)
        setattr(s.next, queue, getattr(s, queue).drop(i))
