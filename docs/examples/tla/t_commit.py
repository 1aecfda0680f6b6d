"""Transaction commit: what two-phase commit and Paxos Commit implement."""

from highwater.language import *


class TCommit(Protocol):
    """All can commit once all are prepared; each can abort while none has committed."""

    parameters = {"managers": Parameter(3, 1, 6, "resource managers")}

    def define(self):
        """The state of each resource manager."""
        self.rm = Enum("r", self.p.managers)
        return Struct("State", rm=Array(self.rm, Enum("Resource", "working prepared committed aborted")))

    @action(rm="rm")
    def prepare(self, s, rm):
        """It is ready to commit."""
        require("it works", s.rm[rm] == "working")
        s.next.rm[rm] = "prepared"

    @action(rm="rm")
    def commit(self, s, rm):
        """All are ready."""
        require("it is prepared", s.rm[rm] == "prepared")
        require("all are prepared", all_of(s.rm[r].in_("prepared", "committed") for r in self.rm))
        s.next.rm[rm] = "committed"

    @action(rm="rm")
    def abort(self, s, rm):
        """No one has gone ahead."""
        require("nothing is decided", s.rm[rm].in_("working", "prepared"))
        require("none has committed", all_of(s.rm[r] != "committed" for r in self.rm))
        s.next.rm[rm] = "aborted"
