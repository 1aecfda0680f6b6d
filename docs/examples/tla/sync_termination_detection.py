"""Termination detection, which EWD 840 implements."""

from highwater.language import *


class SyncTerminationDetection(Protocol):
    """Nodes activate each other and finish; termination is detected with the last step or later."""

    parameters = {"nodes": Parameter(3, 1, 8, "nodes")}

    def define(self):
        """The active nodes, and whether termination is known."""
        self.node = Index("node", self.p.nodes)
        return Struct("State", active=Array(self.node, Bool), detected=Bool)

    def initial(self):
        """Any state that satisfies `initially`."""
        return [{"active": free, "detected": free}]

    def initially(self, s):
        """If termination is detected, no node is active."""
        return ~s.detected | self.terminated(s.active)

    def terminated(self, active):
        """No node is active."""
        return ~any_of(active[i] for i in self.node)

    @action(i="node")
    def terminate(self, s, i):
        """A node finishes. If it was the last active node, the step may also detect termination."""
        now = one_of("detects", [False, True])
        require("it is active", s.active[i])
        s.next.active[i] = False
        s.next.detected = self.terminated(s.active.set(i, False)) if now else s.detected

    @action(i="node", j="node")
    def wake_up(self, s, i, j):
        """An active node activates a node."""
        require("it is active", s.active[i])
        s.next.active[j] = True

    @action()
    def detect(self, s):
        """Termination is detected."""
        require("nobody is active", self.terminated(s.active))
        s.next.detected = True
