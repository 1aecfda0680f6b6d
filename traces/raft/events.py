"""What lines of a raft log say. Offsets are LEO-like: one past a record; an epoch or an offset of −1 is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.traces.reading.fields import Place


@dataclass(frozen=True)
class Fetch:
    """A fetch request of ``sender``. ``hwm`` is the field of version 18, None where it has its default."""

    sender: int
    epoch: int
    offset: int
    last_epoch: int
    hwm: int | None
    wait_ms: int = 500


@dataclass(frozen=True)
class FetchAnswer:
    """The answer to a fetch; ``error`` other than 0 has no more than the epoch and the leader that its sender knows.

    ``size`` is that of its records, in bytes. ``diverging`` is an epoch and its end offset, as ``snapshot`` is that of
    the snapshot to be fetched instead.
    """

    error: int
    leader: int
    epoch: int
    hwm: int
    size: int
    diverging: tuple[int, int] | None
    snapshot: tuple[int, int] | None


@dataclass(frozen=True)
class Vote:
    """A vote request, or one for a pre-vote, of ``sender`` to ``voter``."""

    sender: int
    voter: int
    epoch: int
    last_epoch: int
    offset: int
    pre: bool


@dataclass(frozen=True)
class VoteAnswer:
    """The answer to a vote request."""

    error: int
    leader: int
    epoch: int
    granted: bool


@dataclass(frozen=True)
class Begin:
    """A BeginQuorumEpoch request: ``sender`` says to ``voter`` that it leads."""

    sender: int
    voter: int
    epoch: int


@dataclass(frozen=True)
class BeginAnswer:
    """The answer to a BeginQuorumEpoch request."""

    error: int
    leader: int
    epoch: int


@dataclass(frozen=True)
class Other:
    """A message that no rule here is about: ``api`` is its name."""

    api: str
    error: int = 0


Message = Fetch | FetchAnswer | Vote | VoteAnswer | Begin | BeginAnswer | Other


@dataclass(frozen=True)
class Sent:
    """A request that this node sent."""

    message: Message
    correlation: int
    to: int


@dataclass(frozen=True)
class Received:
    """A request that this node took; ``version`` is that of the API."""

    message: Message
    correlation: int
    version: int


@dataclass(frozen=True)
class Answered:
    """An answer that this node sent, with the request that it is for."""

    message: Message
    correlation: int
    request: Message


@dataclass(frozen=True)
class GotAnswer:
    """An answer that this node took. ``failed``: it comes from its own client, as the other could not be reached."""

    message: Message
    correlation: int
    source: int
    failed: bool


@dataclass(frozen=True)
class Ignored:
    """The answer that came last is not used: nobody waits for it any more."""

    correlation: int


@dataclass(frozen=True)
class Judged:
    """A vote request was granted or rejected."""

    message: Vote
    granted: bool


@dataclass(frozen=True)
class Role:
    """What a node is from here on: Unattached, Prospective, Candidate, Leader, Follower, Resigned.

    ``hwm`` is None where it knows none, ``granted`` those whose votes it has, None where it asks for none. ``first`` is
    set where the process begins with it.
    """

    name: str
    epoch: int
    leader: int | None
    voted: int | None
    hwm: int | None
    granted: frozenset[int] | None
    first: bool
    start: int | None = None


@dataclass(frozen=True)
class Appended:
    """A leader appended records [base, end)."""

    base: int
    end: int
    epoch: int


@dataclass(frozen=True)
class FollowerEnd:
    """A follower has appended what an answer brought: its LEO and its last epoch."""

    end: int
    epoch: int


@dataclass(frozen=True)
class Truncated:
    """A follower truncated its log."""

    end: int


@dataclass(frozen=True)
class Hwm:
    """The HWM that a node knows moved. ``leads``: as the leader; ``ends`` are the LEOs that it gives then."""

    offset: int
    leads: bool
    before: int | None = None
    ends: tuple[tuple[int, int], ...] | None = None
    final: bool = True


@dataclass(frozen=True)
class Completing:
    """A parked fetch is answered before its time is over."""

    sender: int
    offset: int


@dataclass(frozen=True)
class Started:
    """The process of this node begins; ``voters`` as its log and its configuration have them."""

    voters: tuple[int, ...]


What = (
    Sent | Received | Answered | GotAnswer | Ignored | Judged | Role | Appended | FollowerEnd | Truncated | Hwm
    | Completing | Started
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Something that a line of a node's log says. ``time_ms`` is its clock's time, counted as if it were UTC."""

    node: int
    time_ms: int
    place: Place = field(repr=False)
    what: What
