"""An allocator of resources: clients request sets of resources, get some at a time, and return them."""

from highwater.language import *

FAIR = weak("give_all_back") + strong("allocate", by=["c"])


@invariant("ResourceMutex")
def a_resource_has_one_holder(m, s):
    """No two clients hold the same resource."""
    pairs = [(a, b) for a in m.client for b in m.client if a != b]
    return all_of((s.alloc[a] & s.alloc[b]).is_empty for a, b in pairs)


@leads_to("ClientsWillReturn", fair=FAIR, c="client")
def clients_return(m, s, c):
    """A client that holds all requested resources eventually returns them."""
    return s.unsat[c].is_empty, s.alloc[c].is_empty


@leads_to("ClientsWillObtain", fair=FAIR, c="client", r="resource")
def clients_obtain(m, s, c, r):
    """A client that waits for a resource eventually gets it."""
    return s.unsat[c].has(r), s.alloc[c].has(r)


@always_eventually("InfOftenSatisfied", fair=FAIR, c="client")
def clients_are_satisfied(m, s, c):
    """No client waits forever."""
    return s.unsat[c].is_empty


class SimpleAllocator(Protocol):
    """Clients are interchangeable, and so are resources."""

    symmetric = ("c", "r")
    invariants = (a_resource_has_one_holder,)
    liveness = (clients_return, clients_obtain, clients_are_satisfied)

    def define(self):
        """The resources that each client waits for, and those that it holds."""
        self.client, self.resource = Enum("c", 3), Enum("r", 2)
        self.resources = Set(self.resource)
        held = Array(self.client, self.resources)
        return Struct("State", unsat=held, alloc=held)

    @action(c="client", what="resources")
    def request(self, s, c, what):
        """A client that waits for nothing and holds nothing sends a request."""
        require("it waits for nothing and holds nothing", s.unsat[c].is_empty & s.alloc[c].is_empty)
        require("something", ~what.is_empty)
        s.next.unsat[c] = what

    @action(c="client", what="resources")
    def allocate(self, s, c, what):
        """A client gets some of the resources for which it waits."""
        require("something that it waits for", ~what.is_empty & (what <= s.unsat[c]))
        require("nobody holds it", all_of((what & s.alloc[o]).is_empty for o in self.client))
        s.next.alloc[c], s.next.unsat[c] = s.alloc[c] | what, s.unsat[c] - what

    @action(c="client", what="resources")
    def give_back(self, s, c, what):
        """A client returns some of its resources."""
        require("something that it holds", ~what.is_empty & (what <= s.alloc[c]))
        s.next.alloc[c] = s.alloc[c] - what

    @action(c="client")
    def give_all_back(self, s, c):
        """A client returns all of its resources. This step is fair."""
        require("it holds something", ~s.alloc[c].is_empty)
        s.next.alloc[c] = []
