"""A register that a leader copies to its followers: the worked example of the README."""

from __future__ import annotations

from highwater.language import (
    Array,
    Index,
    Int,
    Number,
    Parameter,
    Protocol,
    Rule,
    Set,
    State,
    Struct,
    Truth,
    action,
    all_of,
    invariant,
    require,
)


@invariant("example")
def no_acknowledged_write_is_lost(m: Register, s: State) -> Truth:
    """The leader holds every write that was acknowledged to a client."""
    return s.stored[s.leader] >= s.acknowledged


class Register(Protocol):
    """Writes are numbered; a replica stores the number of the last write that it has."""

    name = "register"
    parameters = {
        "replicas": Parameter(3, 2, 5, "replicas of the register, the leader among them"),
        "writes": Parameter(2, 1, 7, "writes that clients make"),
    }
    rules = {
        "wait_for_all": Rule("example", "A write is acknowledged only when every live replica has it."),
    }
    invariants = (no_acknowledged_write_is_lost,)

    def define(self) -> Struct:
        """The state. The parameters give the sizes of its types."""
        self.replica = Index("replica", self.p.replicas)
        write = Int(0, self.p.writes, bound="writes")
        return Struct(
            "State",
            stored=Array(self.replica, write),
            leader=self.replica,
            alive=Set(self.replica),
            acknowledged=write,
        )

    def initial(self) -> list[dict[str, object]]:
        """Replica 0 leads, all replicas are alive, and nothing is written."""
        everyone = range(self.p.replicas)
        return [{"stored": [0 for _ in everyone], "leader": 0, "alive": everyone, "acknowledged": 0}]

    @action(says="a client writes to the leader")
    def write(self, s: State) -> None:
        """The leader stores the next write. The search prunes steps beyond the bound `writes`."""
        s.next.stored[s.leader] = s.stored[s.leader] + 1

    @action(says="the leader copies to replica {to}", to="replica")
    def copy(self, s: State, to: Number) -> None:
        """A follower copies the last write of the leader."""
        require("the follower lives", s.alive.has(to))
        require("it lacks a write", s.stored[to] < s.stored[s.leader])
        s.next.stored[to] = s.stored[s.leader]

    @action(says="the leader acknowledges what it has")
    def acknowledge(self, s: State) -> None:
        """The leader acknowledges its last write to the client."""
        last = s.stored[s.leader]
        require("there is a write to acknowledge", s.acknowledged < last)
        if self.on("wait_for_all"):
            holds = all_of(~s.alive.has(r) | (s.stored[r] == last) for r in self.replica)
            require("every live replica has it", holds)
        s.next.acknowledged = last

    @action(says="the leader dies and replica {to} takes over", to="replica")
    def fail_over(self, s: State, to: Number) -> None:
        """The leader dies, and any live follower becomes the leader."""
        require("the new leader lives", s.alive.has(to))
        require("it is another replica", s.leader != to)
        s.next.alive = s.alive.without(s.leader)
        s.next.leader = to
