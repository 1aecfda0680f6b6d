"""Paxos Commit: one instance of Paxos for each resource manager decides the manager's vote."""

from itertools import combinations

from t_commit import TCommit

from highwater.language import *


class PaxosCommit(Protocol):
    """Messages are never removed, and any process may act as leader."""

    parameters = {
        "managers": Parameter(2, 1, 3, "resource managers"),
        "acceptors": Parameter(3, 1, 5, "acceptors"),
        "ballots": Parameter(2, 1, 3, "ballots"),
    }

    def define(self):
        """The messages sent, and the state of each acceptor in each instance."""
        self.rm, self.acceptor = Enum("r", self.p.managers), Enum("a", self.p.acceptors)
        self.ballot, self.later = Index("ballot", self.p.ballots), range(1, self.p.ballots)
        self.majority = list(combinations(self.acceptor, self.p.acceptors // 2 + 1))
        self.value = Enum("Value", "prepared aborted")
        known = dict(bal=Option(self.ballot), val=Option(self.value))
        self.msgs = Messages(
            phase1a=dict(ins=self.rm, bal=self.ballot),
            phase1b=dict(ins=self.rm, mbal=self.ballot, acc=self.acceptor, **known),
            phase2a=dict(ins=self.rm, bal=self.ballot, val=self.value),
            phase2b=dict(ins=self.rm, bal=self.ballot, val=self.value, acc=self.acceptor),
            commit={},
            abort={},
        )
        self.asks, self.proposals = self.msgs.of("phase1a"), self.msgs.of("phase2a")
        accepted = Struct("Accepted", mbal=self.ballot, **known)
        states = Enum("Resource", "working prepared committed aborted")
        acceptors = Array(self.rm, Array(self.acceptor, accepted))
        return Struct("State", rm=Array(self.rm, states), accepted=acceptors, msgs=self.msgs)

    @action(rm="rm", vote="value")
    def vote(self, s, rm, vote):
        """A resource manager prepares or aborts, and proposes its vote in ballot 0."""
        require("it works", s.rm[rm] == "working")
        s.next.rm[rm] = str(vote)
        s.next.msgs.send("phase2a", ins=rm, bal=0, val=vote)

    @action(rm="rm")
    def hear_decision(self, s, rm):
        """A resource manager obeys the decision."""
        to = one_of("to", ["commit", "abort"])
        require("the decision was sent", s.msgs.has(to))
        s.next.rm[rm] = "committed" if to == "commit" else "aborted"

    @action(rm="rm", bal="later")
    def phase_1a(self, s, rm, bal):
        """A leader starts a ballot."""
        s.next.msgs.send("phase1a", ins=rm, bal=bal)

    @action(rm="rm", bal="later", quorum="majority")
    def phase_2a(self, s, rm, bal, quorum):
        """A leader proposes the value that its majority accepted in the latest ballot, or else to abort."""
        require("nothing is proposed", ~s.msgs.has("phase2a", ins=rm, bal=bal))
        told = [pair for acc in quorum for pair in s.msgs.all("phase1b", ins=rm, mbal=bal, acc=acc)]
        require("all have told", all_of(s.msgs.has("phase1b", ins=rm, mbal=bal, acc=acc) for acc in quorum))
        latest = greatest(-1, *(where(there, m.bal.or_(-1), -1) for m, there in told))
        chosen = cases(*((there & (m.bal.or_(-1) == latest), m.val) for m, there in told), otherwise=None)
        s.next.msgs.send("phase2a", ins=rm, bal=bal, val=where(latest >= 0, chosen.value, "aborted"))

    @action()
    def decide(self, s):
        """A leader announces the decision: commit if all instances decide so, abort if one does."""
        to = one_of("to", ["commit", "abort"])
        if to == "commit":
            require("all are decided so", all_of(self.decided(s, rm, "prepared") for rm in self.rm))
        else:
            require("one is decided so", any_of(self.decided(s, rm, "aborted") for rm in self.rm))
        s.next.msgs.send(to)

    def decided(self, s, rm, val):
        """True if a majority has accepted the value in one ballot."""
        sent = lambda b, acc: s.msgs.has("phase2b", ins=rm, bal=b, val=val, acc=acc)  # noqa: E731
        return any_of(all_of(sent(b, acc) for acc in q) for b in self.ballot for q in self.majority)

    @action(acc="acceptor", m="asks")
    def phase_1b(self, s, acc, m):
        """An acceptor promises to accept no older ballot."""
        mine = s.accepted[m.ins][acc]
        require("it was sent", s.msgs.has(m))
        require("it is newer", mine.mbal < m.bal)
        s.next.accepted[m.ins][acc].mbal = m.bal
        s.next.msgs.send("phase1b", ins=m.ins, mbal=m.bal, acc=acc, bal=mine.bal, val=mine.val)

    @action(acc="acceptor", m="proposals")
    def phase_2b(self, s, acc, m):
        """An acceptor accepts a proposal."""
        require("it was sent", s.msgs.has(m))
        require("it is not older", s.accepted[m.ins][acc].mbal <= m.bal)
        s.next.accepted[m.ins][acc] = dict(mbal=m.bal, bal=m.bal, val=m.val)
        s.next.msgs.send("phase2b", ins=m.ins, bal=m.bal, val=m.val, acc=acc)

    @invariant("TCommit")
    def consistent(self, s):
        """No manager has committed while another has aborted."""
        return ~any_of((s.rm[a] == "committed") & (s.rm[b] == "aborted") for a in self.rm for b in self.rm)

    @refines(TCommit, "TC!TCSpec")
    def commits_as_one(self, s):
        """The protocol implements transaction commit."""
        return dict(rm=s.rm)

    invariants, step_properties = (consistent,), (commits_as_one,)
