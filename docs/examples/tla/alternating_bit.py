"""The alternating bit: a value is sent again until its bit comes back, over channels that lose messages."""

from ab_correctness import ABCorrectness

from highwater.language import *

FAIR = weak("send_again", "acknowledge") + strong("receive", "hear")


@leads_to("SentLeadsToRcvd", fair=FAIR, d="data")
def arrives(m, s, d):
    """A message that is sent arrives."""
    return (s.sent == d) & (s.bit != s.ack), s.rcvd == d


@refines(ABCorrectness, "ABC!ABCSpec")
def is_a_channel(m, s):
    """It is a channel for one value at a time."""
    return dict(bit=s.bit, ack=s.ack, seen=s.seen, sent=s.sent, rcvd=s.rcvd)


class AlternatingBit(Protocol):
    """Bits are numbers; a queue longer than `queue` is not looked at."""

    parameters = {"queue": Parameter(2, 1, 4, "messages in a channel")}
    liveness = (arrives,)
    step_properties = (is_a_channel,)

    def define(self):
        """The channels, the sender's bits, the receiver's, the last value of each."""
        self.data, bit = Enum("d", 2), Int(0, 1)
        message = Struct("Message", bit=bit, value=self.data)
        queues = dict(
            msgs=Seq(message, self.p.queue, bound="queue"), acks=Seq(bit, self.p.queue, bound="queue")
        )
        return Struct("State", bit=bit, ack=bit, seen=bit, sent=self.data, rcvd=self.data, **queues)

    def initial(self):
        """Any bit, which all have; any values."""
        return [{"bit": b, "ack": b, "seen": b, "sent": free, "rcvd": free} for b in (0, 1)]

    @action(d="data")
    def send(self, s, d):
        """The last value has arrived: the next one."""
        require("it has arrived", s.ack == s.bit)
        s.next.sent, s.next.bit = d, 1 - s.bit
        s.next.msgs = s.msgs.append(dict(bit=1 - s.bit, value=d))

    @action()
    def send_again(self, s):
        """The same once more."""
        require("it has not arrived", s.ack != s.bit)
        s.next.msgs = s.msgs.append(dict(bit=s.bit, value=s.sent))

    @action()
    def receive(self, s):
        """A value arrives."""
        require("there is one", ~s.msgs.is_empty)
        m, s.next.msgs = s.msgs.pop()
        s.next.seen, s.next.rcvd = m.bit, m.value

    @action()
    def acknowledge(self, s):
        """The receiver tells its bit."""
        s.next.acks = s.acks.append(s.seen)

    @action()
    def hear(self, s):
        """An acknowledgement arrives."""
        require("there is one", ~s.acks.is_empty)
        s.next.ack, s.next.acks = s.acks.pop()

    @action()
    def lose(self, s):
        """Any message is lost."""
        queue, i = one_of("queue", ["msgs", "acks"]), one_of("i", range(self.p.queue))
        require("there is one", getattr(s, queue).length > i)
        setattr(s.next, queue, getattr(s, queue).drop(i))
