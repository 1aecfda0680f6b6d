"""Readers and writers take turns: who wants to read or write waits in one queue."""

from highwater.language import *

FAIR = weak("wait", "serve") + weak("stop", by=[])


@invariant("Safety")
def nobody_reads_what_is_written(m, s):
    """One writer, or readers."""
    return (s.readers.is_empty | s.writers.is_empty) & (size(s.writers) <= 1)


@always_eventually("Liveness", fair=FAIR, a="actor")
def reads(m, s, a):
    """Everybody reads again and again."""
    return s.readers.has(a)


@always_eventually("Liveness", fair=FAIR, a="actor")
def writes(m, s, a):
    """Everybody writes again and again."""
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
    """An actor waits once to read and once to write, at most."""

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
        """Somebody wants to read or to write."""
        entry = self.entry(kind=kind, who=who)
        require("not in the queue", ~s.waiting.has(entry))
        s.next.waiting = s.waiting.append(entry)

    @action()
    def serve(self, s):
        """The first in the queue begins."""
        require("somebody waits, and nobody writes", ~s.waiting.is_empty & s.writers.is_empty)
        entry, s.next.waiting = s.waiting.pop()
        with when(entry.kind == "read"):
            s.next.readers = s.readers.with_(entry.who)
        with otherwise():
            require("nobody reads", s.readers.is_empty)
            s.next.writers = s.writers.with_(entry.who)

    @action(who="actor")
    def stop(self, s, who):
        """Somebody has read or written."""
        require("active", s.readers.has(who) | s.writers.has(who))
        with when(s.readers.has(who)):
            s.next.readers = s.readers.without(who)
        with otherwise():
            s.next.writers = s.writers.without(who)
