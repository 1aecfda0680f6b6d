"""Chang and Roberts: an election on a ring with messages in one direction, which the least identity wins."""

from highwater.language import *


@invariant("Correctness")
def the_least_initiator_wins(m, s):
    """The winner is an initiator, all other nodes have lost, and other initiators have greater identities."""

    def right(n):
        others = [o for o in m.node if o != n]
        return s.initiator[n] & all_of((s.state[o] == "lost") & (~s.initiator[o] | (o > n)) for o in others)

    return all_of(implies(s.state[n] == "won", right(n)) for n in m.node)


@eventually("Liveness", fair=weak(either("start", "forward"), by=["n"]))
def somebody_wins(m, s):
    """If there is a candidate, a node is eventually elected."""
    return any_of(s.state[n] == "cand" for n in m.node), any_of(s.state[n] == "won" for n in m.node)


class ChangRoberts(Protocol):
    """A node's identity is its number."""

    parameters = {"nodes": Parameter(3, 1, 7, "nodes on the ring")}
    invariants, liveness = (the_least_initiator_wins,), (somebody_wins,)

    def define(self):
        """Messages at each node, the nodes that have started, the initiators, and each node's belief."""
        self.node = Index("node", self.p.nodes)
        believes = Enum("Belief", "cand lost won")
        each = dict(msgs=Set(self.node), started=Bool, initiator=Bool, state=believes)
        return Struct("State", **{name: Array(self.node, type) for name, type in each.items()})

    def initial(self):
        """Any node may be an initiator."""
        return [{"initiator": free, "state": free}]

    def initially(self, s):
        """Initiators are candidates, and all other nodes have lost."""
        return all_of(s.state[n] == where(s.initiator[n], s.state[n].type.cand, "lost") for n in self.node)

    @action(n="node")
    def start(self, s, n):
        """A node starts. An initiator sends its identity to the next node."""
        after = (n + 1) % self.p.nodes
        require("not yet", ~s.started[n])
        s.next.started[n] = True
        s.next.msgs[after] = where(s.initiator[n], s.msgs[after].with_(n), s.msgs[after])

    @action(n="node")
    def forward(self, s, n):
        """A node passes on a lesser identity and has lost; a node that has lost passes on every identity."""
        id, after = one_of("id", self.node), (n + 1) % self.p.nodes
        require("it has started, and the message is there", s.started[n] & s.msgs[n].has(id))
        passes = (s.state[n] == "lost") | (id < n)
        rest = s.msgs[n].without(id)
        if self.p.nodes == 1:
            s.next.msgs[n] = where(passes, s.msgs[n], rest)
        else:
            s.next.msgs[n] = rest
            s.next.msgs[after] = where(passes, s.msgs[after].with_(id), s.msgs[after])
        s.next.state[n] = cases((passes, s.state[n].type.lost), (id == n, "won"), otherwise=s.state[n])
