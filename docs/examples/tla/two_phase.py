"""Two-phase commit: a transaction manager collects the votes of resource managers, and sends them its decision."""

from t_commit import TCommit

from highwater.language import *


class TwoPhase(Protocol):
    """Messages are never removed: a message can be received again."""

    parameters = {"managers": Parameter(3, 1, 9, "resource managers")}
    symmetric = ("r",)

    def define(self):
        """The states of the transaction manager and the resource managers, and the messages sent."""
        self.rm = Enum("r", self.p.managers)
        msgs = Messages(prepared=dict(rm=self.rm), commit={}, abort={})
        states = Enum("Resource", "working prepared committed aborted")
        decision = Enum("Decision", "init committed aborted")
        return Struct("State", rm=Array(self.rm, states), tm=decision, prepared=Set(self.rm), msgs=msgs)

    @action(rm="rm")
    def hear_prepared(self, s, rm):
        """The transaction manager receives a message that a resource manager is prepared."""
        require("nothing is decided", s.tm == "init")
        require("it is prepared", s.msgs.has("prepared", rm=rm))
        s.next.prepared = s.prepared.with_(rm)

    @action()
    def commit(self, s):
        """The transaction manager commits, because all resource managers are prepared."""
        require("nothing is decided", s.tm == "init")
        require("all are prepared", s.prepared == s.prepared.type.all())
        s.next.tm = "committed"
        s.next.msgs.send("commit")

    @action()
    def abort(self, s):
        """The transaction manager aborts."""
        require("nothing is decided", s.tm == "init")
        s.next.tm = "aborted"
        s.next.msgs.send("abort")

    @action(rm="rm")
    def prepare(self, s, rm):
        """A resource manager becomes ready to commit."""
        require("it works", s.rm[rm] == "working")
        s.next.rm[rm] = "prepared"
        s.next.msgs.send("prepared", rm=rm)

    @action(rm="rm")
    def choose_to_abort(self, s, rm):
        """A resource manager aborts before it is prepared."""
        require("it works", s.rm[rm] == "working")
        s.next.rm[rm] = "aborted"

    @action(rm="rm")
    def hear_decision(self, s, rm):
        """A resource manager obeys the decision."""
        to = one_of("to", ["commit", "abort"])
        require("the decision was sent", s.msgs.has(to))
        s.next.rm[rm] = "committed" if to == "commit" else "aborted"

    @invariant("TCommit")
    def consistent(self, s):
        """No manager has committed while another has aborted."""
        return ~any_of((s.rm[a] == "committed") & (s.rm[b] == "aborted") for a in self.rm for b in self.rm)

    @refines(TCommit, "TC!TCSpec")
    def commits_as_one(self, s):
        """The protocol implements transaction commit."""
        return dict(rm=s.rm)

    invariants, step_properties = (consistent,), (commits_as_one,)
