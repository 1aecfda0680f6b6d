"""Lamport's mutual exclusion: requests carry logical clocks, channels are first in, first out."""

from highwater.language import *


class LamportMutex(Protocol):
    """The lesser clock goes first; of equal clocks the lesser process."""

    parameters = {"processes": Parameter(3, 2, 4, "processes"), "clocks": Parameter(6, 1, 9, "largest clock")}

    def define(self):
        """Clocks, the requests that each process knows of (0: none), who has acknowledged, channels."""
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
        """Send to all others."""
        for q in self.proc:
            if p != q:
                s.next.net[p][q] = s.net[p][q].append(dict(kind=kind, clock=clock))

    @action(p="proc")
    def request(self, s, p):
        """A process wants to enter."""
        require("it has not asked", s.req[p][p] == 0)
        s.next.req[p][p] = s.clock[p]
        self.broadcast(s, p, "req", s.clock[p])
        s.next.ack[p] = [p]

    @action(p="proc", q="proc")
    def receive(self, s, p, q):
        """Process p receives from q: a request is acknowledged."""
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
        """All have acknowledged, and no other request goes before."""
        require("all have acknowledged", s.ack[p] == Set(self.proc).all())
        require("it is the first", all_of(self.beats(s, p, q) for q in self.proc if p != q))
        s.next.crit = s.crit.with_(p)

    def beats(self, s, p, q):
        """Whether p believes that its request goes before q's."""
        mine, other = s.req[p][p], s.req[p][q]
        return (other == 0) | (mine < other) | (mine == other) & (p < q)

    @action(p="proc")
    def leave(self, s, p):
        """It tells the others."""
        require("it is inside", s.crit.has(p))
        s.next.crit = s.crit.without(p)
        self.broadcast(s, p, "rel")
        s.next.req[p][p] = 0
        s.next.ack[p] = []

    @invariant("Mutex")
    def one_at_a_time(self, s):
        """Never two are inside."""
        return size(s.crit) <= 1

    invariants = (one_at_a_time,)
