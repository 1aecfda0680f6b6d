"""Lamport's mutual exclusion: requests carry logical clocks, and channels are first in, first out."""

from highwater.language import *


class LamportMutex(Protocol):
    """The request with the smaller clock goes first; if clocks are equal, that of the smaller process."""

    parameters = {"processes": Parameter(3, 2, 4, "processes"), "clocks": Parameter(6, 1, 9, "largest clock")}

    def define(self):
        """The clocks, the requests known to each process (0: none), the acknowledgements, and the channels."""
        self.proc = Index("process", self.p.processes)
        clock = Int(1, self.p.clocks, bound="clocks")
        asked = Int(0, self.p.clocks)
        message = Struct("Message", kind=Enum("Kind", "req ack rel"), clock=asked)
        return Struct(
            "State",
            clock=Array(self.proc, clock),
            req=Array(self.proc, Array(self.proc, asked)),
            ack=Array(self.proc, Set(self.proc)),
            net=Array(self.proc, Array(self.proc, Seq(message, 3))),
            crit=Set(self.proc),
        )

    def broadcast(self, s, p, kind, clock=0):
        """Send a message to all other processes."""
        for q in self.proc:
            if p != q:
                s.next.net[p][q] = s.net[p][q].append(dict(kind=kind, clock=clock))

    @action(p="proc")
    def request(self, s, p):
        """A process requests to enter."""
        require("it has not asked", s.req[p][p] == 0)
        s.next.req[p][p] = s.clock[p]
        self.broadcast(s, p, "req", s.clock[p])
        s.next.ack[p] = [p]

    @action(p="proc", q="proc")
    def receive(self, s, p, q):
        """Process p receives a message from q, and acknowledges it if it is a request."""
        require("another one", p != q)
        require("there is a message", ~s.net[q][p].is_empty)
        m, s.next.net[q][p] = s.net[q][p].pop()
        with when(m.kind == "req"):
            s.next.req[p][q] = m.clock
            s.next.clock[p] = greatest(m.clock, s.clock[p]) + 1
            s.next.net[p][q] = s.net[p][q].append(dict(kind="ack", clock=0))
        with otherwise(m.kind == "ack"):
            s.next.ack[p] = s.ack[p].with_(q)
        with otherwise():
            s.next.req[p][q] = 0

    @action(p="proc")
    def enter(self, s, p):
        """A process enters: all have acknowledged its request, and no other request goes first."""
        require("all have acknowledged", s.ack[p] == Set(self.proc).all())
        require("it is the first", all_of(self.beats(s, p, q) for q in self.proc if p != q))
        s.next.crit = s.crit.with_(p)

    def beats(self, s, p, q):
        """True if p believes that its request goes before the request of q."""
        mine, other = s.req[p][p], s.req[p][q]
        return (other == 0) | (mine < other) | (mine == other) & (p < q)

    @action(p="proc")
    def leave(self, s, p):
        """A process leaves, and sends a release to the others."""
        require("it is inside", s.crit.has(p))
        s.next.crit = s.crit.without(p)
        self.broadcast(s, p, "rel")
        s.next.req[p][p] = 0
        s.next.ack[p] = []

    @invariant("Mutex")
    def one_at_a_time(self, s):
        """At most one process is in the critical section."""
        return size(s.crit) <= 1

    invariants = (one_at_a_time,)
