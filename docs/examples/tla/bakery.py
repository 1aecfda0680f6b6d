"""The bakery algorithm, from every state in which Lamport's invariant holds, to check that it is inductive."""

from highwater.language import *


def before(m, s, i, j):
    """Process i goes before process j, or j will find out that i does."""
    decided = s.pc[j].in_("e4", "w1", "w2") & first_of(s, i, j)
    return (s.num[i] > 0) & (
        s.pc[j].in_("ncs", "e1", "exit")
        | (s.pc[j] == "e2") & (s.unchecked[j].has(i) | (s.max[j] >= s.num[i]))
        | (s.pc[j] == "e3") & (s.max[j] >= s.num[i])
        | decided & implies(s.pc[j].in_("w1", "w2"), s.unchecked[j].has(i))
    )


def first_of(s, i, j):
    """True if i has a smaller number than j or, if the numbers are equal, a smaller index."""
    return (s.num[i] < s.num[j]) | (s.num[i] == s.num[j]) & (i < j)


@invariant("Inv")
def inductive(m, s):
    """The invariant of Lamport's proof."""

    def of(i):
        pc, nxt, waits = s.pc[i], s.nxt[i], s.pc[i].in_("w1", "w2")
        others = [j for j in m.proc if j != i]
        late = ((s.pc[nxt] == "e2") & ~s.unchecked[nxt].has(i)) | (s.pc[nxt] == "e3")
        return [
            implies(pc.in_("e4", "w1", "w2", "cs"), s.num[i] != 0),
            implies(pc.in_("e2", "e3"), s.flag[i]),
            implies(pc == "w2", nxt != i),
            implies(waits, ~s.unchecked[i].has(i)),
            implies(waits, all_of(s.unchecked[i].has(j) | before(m, s, i, j) for j in others)),
            implies((pc == "w2") & late, s.max[nxt] >= s.num[i]),
            implies(pc == "cs", all_of(before(m, s, i, j) for j in others)),
        ]

    return all_of(part for i in m.proc for part in of(i))


@invariant("MutualExclusion")
def one_at_a_time(m, s):
    """At most one process is in the critical section."""
    return total(s.pc[i] == "cs" for i in m.proc) <= 1


FAIR = weak(either("e1", "e2", "e2_done", "e3", "e4", "w1", "w1_done", "w2", "cs", "exit"), by=["i"])
STEADY = FAIR + weak("e1", "e3", "e4", "exit", done=True)


def enters(name, fair):
    """Both liveness properties under the fairness `fair`; `name` is a suffix of their names."""

    @leads_to("DeadlockFree", fair=fair, name=f"somebody_enters{name}")
    def somebody(m, s):
        """If a process wants to enter, some process enters."""
        return any_of(s.pc[i] == "e1" for i in m.proc), any_of(s.pc[i] == "cs" for i in m.proc)

    @leads_to("StarvationFree", fair=fair, name=f"everybody_enters{name}", i="proc")
    def everybody(m, s, i):
        """Every process that wants to enter enters."""
        return s.pc[i] == "e1", s.pc[i] == "cs"

    return somebody, everybody


class Bakery(Protocol):
    """A variable may flicker while it is written: a reader may see any value."""

    parameters = {
        "processes": Parameter(2, 2, 3, "processes"),
        "most": Parameter(2, 1, 4, "largest number"),
        "anywhere": Parameter(1, 0, 1, "whether it begins wherever the invariant holds"),
    }
    invariants, liveness = (inductive, one_at_a_time), (*enters("", STEADY), *enters("_who_wavers", FAIR))

    def define(self):
        """The variables of each process, and its program counter `pc`."""
        self.proc, self.number = Index("process", self.p.processes), Int(0, self.p.most, bound="most")
        label, number = Enum("Label", "ncs e1 e2 e3 e4 w1 w2 cs exit"), self.number
        fields = dict(pc=label, num=number, flag=Bool, unchecked=Set(self.proc), max=number, nxt=self.proc)
        return Struct("State", **{name: Array(self.proc, type) for name, type in fields.items()})

    def initial(self):
        """Any state or, if `anywhere` is 0, only the state in which all values are zero."""
        return [dict.fromkeys(self.state.fields if self.p.anywhere else (), free)]

    def initially(self, s):
        """The invariant holds in the initial states."""
        return inductive.function(self, s)

    def others(self, i):
        """All but one process."""
        return Set(self.proc).all().without(i)

    @action(i="proc")
    def ncs(self, s, i):
        """A process wants to enter."""
        require("here", s.pc[i] == "ncs")
        s.next.pc[i] = "e1"

    @action(i="proc")
    def e1(self, s, i):
        """A process raises its flag, which may flicker."""
        require("here", s.pc[i] == "e1")
        if one_of("done", [False, True]):
            s.next.flag[i], s.next.unchecked[i], s.next.max[i] = True, self.others(i), 0
            s.next.pc[i] = "e2"
        else:
            s.next.flag[i] = ~s.flag[i]

    @action(i="proc")
    def e2(self, s, i):
        """A process reads the number of another process, to find the greatest number."""
        require("here", (s.pc[i] == "e2") & ~s.unchecked[i].is_empty)
        j = one_of("j", self.proc)
        require("not looked at yet", s.unchecked[i].has(j))
        s.next.unchecked[i] = s.unchecked[i].without(j)
        s.next.max[i] = greatest(s.max[i], s.num[j])

    @action(i="proc")
    def e2_done(self, s, i):
        """A process has read all numbers."""
        require("here", (s.pc[i] == "e2") & s.unchecked[i].is_empty)
        s.next.pc[i] = "e3"

    @action(i="proc")
    def e3(self, s, i):
        """A process takes a greater number, which may flicker."""
        require("here", s.pc[i] == "e3")
        if one_of("done", [False, True]):
            s.next.num[i] = s.max[i] + one_of("more", range(1, self.p.most + 2))
            s.next.pc[i] = "e4"
        else:
            s.next.num[i] = one_of("k", self.number)

    @action(i="proc")
    def e4(self, s, i):
        """A process lowers its flag, which may flicker."""
        require("here", s.pc[i] == "e4")
        if one_of("done", [False, True]):
            s.next.flag[i], s.next.unchecked[i] = False, self.others(i)
            s.next.pc[i] = "w1"
        else:
            s.next.flag[i] = ~s.flag[i]

    @action(i="proc")
    def w1(self, s, i):
        """A process waits until another process has lowered its flag."""
        require("here", (s.pc[i] == "w1") & ~s.unchecked[i].is_empty)
        j = one_of("j", self.proc)
        require("not waited for yet, and its flag is low", s.unchecked[i].has(j) & ~s.flag[j])
        s.next.nxt[i], s.next.pc[i] = j, "w2"

    @action(i="proc")
    def w1_done(self, s, i):
        """A process has waited for all others, and enters the critical section."""
        require("here", (s.pc[i] == "w1") & s.unchecked[i].is_empty)
        s.next.pc[i] = "cs"

    @action(i="proc")
    def w2(self, s, i):
        """A process waits until the other process has no number, or comes after it."""
        require("here", s.pc[i] == "w2")
        require("it goes before", (s.num[s.nxt[i]] == 0) | first_of(s, i, s.nxt[i]))
        s.next.unchecked[i], s.next.pc[i] = s.unchecked[i].without(s.nxt[i]), "w1"

    @action(i="proc")
    def cs(self, s, i):
        """A process leaves the critical section."""
        require("here", s.pc[i] == "cs")
        s.next.pc[i] = "exit"

    @action(i="proc")
    def exit(self, s, i):
        """A process resets its number, which may flicker."""
        require("here", s.pc[i] == "exit")
        if one_of("done", [False, True]):
            s.next.num[i], s.next.pc[i] = 0, "ncs"
        else:
            s.next.num[i] = one_of("k", self.number)
