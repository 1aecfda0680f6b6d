"""Readers and writers take turns: who wants to read or write waits in one queue."""

from dataclasses import replace

from highwater.language import *

ACTORS = range(3)
FAIR = weak("wait", "serve") + weak("stop", by=[])


def again(name, goal):
    """A property of each actor."""
    mark = always_eventually("Liveness", fair=FAIR)
    return [replace(mark(lambda m, s, a=a: goal(s, a)), name=f"{a}_{name}") for a in ACTORS]


@invariant("Safety")
def nobody_reads_what_is_written(m, s):
    """One writer, or readers."""
    return (s.readers.is_empty | s.writers.is_empty) & (size(s.writers) <= 1)


class ReadersWriters(Protocol):
    """An actor waits once to read and once to write, at most."""

    invariants = (nobody_reads_what_is_written,)
    liveness = (
        *again("reads", lambda s, a: s.readers.has(a)),
        *again("writes", lambda s, a: s.writers.has(a)),
        *again("reads_no_more", lambda s, a: ~s.readers.has(a)),
        *again("writes_no_more", lambda s, a: ~s.writers.has(a)),
    )

    def define(self):
        """Who reads, who writes, who waits for what."""
        self.actor, self.kind = Index("actor", len(ACTORS)), Enum("Kind", "read write")
        self.entry = Struct("Entry", kind=self.kind, who=self.actor)
        waiting = Seq(self.entry, 2 * len(ACTORS))
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
