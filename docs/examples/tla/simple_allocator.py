"""An allocator of resources: clients ask for sets of them, get some at a time, and give them back."""

from dataclasses import replace

from highwater.language import *

FAIR = weak("give_all_back") + strong("allocate", by=["c"])


@invariant("ResourceMutex")
def a_resource_has_one_holder(m, s):
    """No two clients hold the same."""
    pairs = [(a, b) for a in m.client for b in m.client if a != b]
    return all_of((s.alloc[a] & s.alloc[b]).is_empty for a, b in pairs)


def of_client(c):
    """The properties of one client."""
    marks = {
        f"{c}_returns": leads_to("ClientsWillReturn", fair=FAIR),
        f"{c}_is_satisfied": always_eventually("InfOftenSatisfied", fair=FAIR),
        **{f"{c}_obtains_{r}": leads_to("ClientsWillObtain", fair=FAIR) for r in ("r1", "r2")},
    }
    goals = [
        lambda m, s: (s.unsat[c].is_empty, s.alloc[c].is_empty),
        lambda m, s: s.unsat[c].is_empty,
        lambda m, s: (s.unsat[c].has("r1"), s.alloc[c].has("r1")),
        lambda m, s: (s.unsat[c].has("r2"), s.alloc[c].has("r2")),
    ]
    return [replace(mark(goal), name=name) for (name, mark), goal in zip(marks.items(), goals, strict=True)]


class SimpleAllocator(Protocol):
    """Clients and resources are alike."""

    symmetric = ("c", "r")
    invariants = (a_resource_has_one_holder,)
    liveness = tuple(p for c in ("c1", "c2", "c3") for p in of_client(c))

    def define(self):
        """What each client waits for, and what it holds."""
        self.client, self.resources = Enum("c", 3), Set(Enum("r", 2))
        held = Array(self.client, self.resources)
        return Struct("State", unsat=held, alloc=held)

    @action(c="client", what="resources")
    def request(self, s, c, what):
        """Who waits for nothing and holds nothing asks."""
        require("it waits for nothing and holds nothing", s.unsat[c].is_empty & s.alloc[c].is_empty)
        require("something", ~what.is_empty)
        s.next.unsat[c] = what

    @action(c="client", what="resources")
    def allocate(self, s, c, what):
        """It gets some of what it waits for."""
        require("something that it waits for", ~what.is_empty & (what <= s.unsat[c]))
        require("nobody holds it", all_of((what & s.alloc[o]).is_empty for o in self.client))
        s.next.alloc[c], s.next.unsat[c] = s.alloc[c] | what, s.unsat[c] - what

    @action(c="client", what="resources")
    def give_back(self, s, c, what):
        """It gives some of it back."""
        require("something that it holds", ~what.is_empty & (what <= s.alloc[c]))
        s.next.alloc[c] = s.alloc[c] - what

    @action(c="client")
    def give_all_back(self, s, c):
        """All of it: this step is fair."""
        require("it holds something", ~s.alloc[c].is_empty)
        s.next.alloc[c] = []
