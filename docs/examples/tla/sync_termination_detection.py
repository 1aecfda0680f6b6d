"""Termination detection: what EWD 840 implements."""

from highwater.language import *


class SyncTerminationDetection(Protocol):
    """Nodes activate each other and finish; that all have finished is found out, at once or later."""

    parameters = {"nodes": Parameter(3, 1, 8, "nodes")}

    def define(self):
        """Who is active, and whether it is known that nobody is."""
        self.node = Index("node", self.p.nodes)
        return Struct("State", active=Array(self.node, Bool), detected=Bool)

    def initial(self):
        """Anything that is not a false alarm."""
        return [{"active": free, "detected": free}]

    def initially(self, s):
        """Nothing is detected that is not so."""
        return ~s.detected | self.terminated(s.active)

    def terminated(self, active):
        """Nobody is active."""
        return ~any_of(active[i] for i in self.node)

    @action(i="node")
    def terminate(self, s, i):
        """A node finishes; that it was the last one may be found out with it."""
        now = one_of("detects", [False, True])
        require("it is active", s.active[i])
        s.next.active[i] = False
        s.next.detected = self.terminated(s.active.set(i, False)) if now else s.detected

    @action(i="node", j="node")
    def wake_up(self, s, i, j):
        """An active node activates another one."""
        require("it is active", s.active[i])
        s.next.active[j] = True

    @action()
    def detect(self, s):
        """It is found out."""
        require("nobody is active", self.terminated(s.active))
        s.next.detected = True
