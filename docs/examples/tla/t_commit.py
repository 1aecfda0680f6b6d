"""Transaction commit, which two-phase commit and Paxos Commit implement."""

from highwater.language import *


class TCommit(Protocol):
    """A manager can commit when all are prepared, and can abort while no manager has committed."""

    parameters = {"managers": Parameter(3, 1, 6, "resource managers")}

    def define(self):
        """The state of each resource manager."""
        self.rm = Enum("r", self.p.managers)
        return Struct("State", rm=Array(self.rm, Enum("Resource", "working prepared committed aborted")))

    @action(rm="rm")
    def prepare(self, s, rm):
        """A resource manager becomes ready to commit."""
        require("it works", s.rm[rm] == "working")
        s.next.rm[rm] = "prepared"

    @action(rm="rm")
    def commit(self, s, rm):
        """A resource manager commits, because all managers are prepared or have committed."""
        require("it is prepared", s.rm[rm] == "prepared")
        require("all are prepared", all_of(s.rm[r].in_("prepared", "committed") for r in self.rm))
        s.next.rm[rm] = "committed"

    @action(rm="rm")
    def abort(self, s, rm):
        """A resource manager aborts, because no manager has committed."""
        require("nothing is decided", s.rm[rm].in_("working", "prepared"))
        require("none has committed", all_of(s.rm[r] != "committed" for r in self.rm))
        s.next.rm[rm] = "aborted"
