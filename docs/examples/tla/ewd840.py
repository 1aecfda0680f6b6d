"""EWD 840: a token goes round a ring to find out whether all nodes have finished."""

from sync_termination_detection import SyncTerminationDetection

from highwater.language import *


def terminated(m, s):
    """No node is active."""
    return ~any_of(s.active[i] for i in m.node)


def detected(m, s):
    """Node 0 has detected termination."""
    return (s.at == 0) & (s.token == "white") & (s.color[0] == "white") & ~s.active[0]


@invariant("TerminationDetection")
def what_is_detected_is_so(m, s):
    """If node 0 has detected termination, no node is active."""
    return implies(detected(m, s), terminated(m, s))


@invariant("Inv")
def dijkstra(m, s):
    """The invariant of Dijkstra's proof."""
    behind = all_of((i <= s.at) | ~s.active[i] for i in m.node)
    return behind | any_of((j <= s.at) & (s.color[j] == "black") for j in m.node) | (s.token == "black")


@refines(SyncTerminationDetection, "TD!Spec")
def detects_termination(m, s):
    """The protocol implements termination detection."""
    return dict(active=s.active, detected=detected(m, s))


@leads_to("Liveness", fair=weak(either("probe", "pass_on"), by=[]))
def termination_is_detected(m, s):
    """If all nodes have finished, node 0 eventually detects it."""
    return terminated(m, s), detected(m, s)


class EWD840(Protocol):
    """Node i passes the token to i - 1."""

    parameters = {"nodes": Parameter(3, 1, 8, "nodes on the ring")}
    invariants, liveness = (what_is_detected_is_so, dijkstra), (termination_is_detected,)
    step_properties = (detects_termination,)

    def define(self):
        """The active nodes, the colours of nodes and token, and the token's place."""
        self.node, color = Index("node", self.p.nodes), Enum("Color", "white black")
        nodes = dict(active=Array(self.node, Bool), color=Array(self.node, color))
        return Struct("State", at=self.node, token=color, **nodes)

    def initial(self):
        """The token is black. Everything else is arbitrary."""
        return [{"active": free, "color": free, "at": free, "token": "black"}]

    @action()
    def probe(self, s):
        """Node 0 sends a white token round the ring."""
        require("the token is here", s.at == 0)
        require("the last round said nothing", (s.token == "black") | (s.color[0] == "black"))
        s.next.at, s.next.token, s.next.color[0] = self.p.nodes - 1, "white", "white"

    @action(i="node")
    def pass_on(self, s, i):
        """A node passes the token on. A black node makes the token black, and becomes white."""
        require("the token is here", (s.at == i) & (i != 0))
        require("it may go", ~s.active[i] | (s.color[i] == "black") | (s.token == "black"))
        s.next.at, s.next.color[i] = i - 1, "white"
        s.next.token = where(s.color[i] == "black", s.color[i], s.token)

    @action(i="node", j="node")
    def send(self, s, i, j):
        """An active node i activates a node j. If j is greater than i, node i becomes black."""
        require("an active node, and another one", s.active[i] & (i != j))
        s.next.active[j] = True
        s.next.color[i] = "black" if j > i else s.color[i]

    @action(i="node")
    def finish(self, s, i):
        """A node finishes."""
        require("it is active", s.active[i])
        s.next.active[i] = False
