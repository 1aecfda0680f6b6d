"""Readers and writers take turns: all actors that want to read or write wait in one queue."""

from highwater.language import *

FAIR = weak("wait", "serve") + weak("stop", by=[])


@invariant("Safety")
def nobody_reads_what_is_written(m, s):
    """At most one actor writes, and no actor reads at the same time."""
    return (s.readers.is_empty | s.writers.is_empty) & (size(s.writers) <= 1)


@always_eventually("Liveness", fair=FAIR, a="actor")
def reads(m, s, a):
    """Every actor reads infinitely often."""
    return s.readers.has(a)


@always_eventually("Liveness", fair=FAIR, a="actor")
def writes(m, s, a):
    """Every actor writes infinitely often."""
    return s.writers.has(a)


@always_eventually("Liveness", fair=FAIR, a="actor")
def stops_reading(m, s, a):
    """No actor reads forever."""
    return ~s.readers.has(a)


@always_eventually("Liveness", fair=FAIR, a="actor")
def stops_writing(m, s, a):
    """No actor writes forever."""
    return ~s.writers.has(a)


class ReadersWriters(Protocol):
    """An actor has at most one entry to read and one entry to write in the queue."""

    parameters = {"actors": Parameter(3, 1, 5, "actors")}
    invariants = (nobody_reads_what_is_written,)
    liveness = (reads, writes, stops_reading, stops_writing)

    def define(self):
        """The readers, the writers, and the queue of waiting actors."""
        self.actor, self.kind = Index("actor", self.p.actors), Enum("Kind", "read write")
        self.entry = Struct("Entry", kind=self.kind, who=self.actor)
        waiting = Seq(self.entry, 2 * self.p.actors)
        return Struct("State", readers=Set(self.actor), writers=Set(self.actor), waiting=waiting)

    @action(kind="kind", who="actor")
    def wait(self, s, kind, who):
        """An actor joins the queue, to read or to write."""
        entry = self.entry(kind=kind, who=who)
        require("not in the queue", ~s.waiting.has(entry))
        s.next.waiting = s.waiting.append(entry)

    @action()
    def serve(self, s):
        """The first actor in the queue begins to read or write."""
        require("somebody waits, and nobody writes", ~s.waiting.is_empty & s.writers.is_empty)
        entry, s.next.waiting = s.waiting.pop()
        with when(entry.kind == "read"):
            s.next.readers = s.readers.with_(entry.who)
        with otherwise():
            require("nobody reads", s.readers.is_empty)
            s.next.writers = s.writers.with_(entry.who)

    @action(who="actor")
    def stop(self, s, who):
        """An actor stops reading or writing."""
        require("active", s.readers.has(who) | s.writers.has(who))
        with when(s.readers.has(who)):
            s.next.readers = s.readers.without(who)
        with otherwise():
            s.next.writers = s.writers.without(who)
