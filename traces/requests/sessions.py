"""Fetch sessions (KIP-227): which partitions a fetch is about that it does not name.

A fetch names what changed since the one before in its session, an answer what there is to say. What is in neither is
fetched again as before, and has the HWM that was told last. After a line that is missing nothing is known of a session
but what the next fetch names.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from highwater.traces.requests.forms import Asked
from highwater.traces.requests.messages import Fetch, Key

MAX_SESSIONS, MAX_ASKED = 2_000, 100_000
"""So many sessions of followers are kept, the last ones used, and so many partitions of each."""
FULL, CLOSING = 0, -1
"""Session epochs of a fetch that names everything, and of one that ends its session."""


@dataclass(slots=True)
class Session:
    """A session: the epoch of its last fetch, and the partitions as they were asked for last."""

    epoch: int
    asked: dict[Key, Asked] = field(default_factory=dict)


class Sessions:
    """The sessions of one node. ``gaps`` counts those that went on after lines that are missing."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.gaps = 0

    def take(self, fetch: Fetch) -> tuple[dict[Key, Asked], bool]:
        """The partitions as this fetch asks for them, and whether its session goes on without a gap.

        Not to be changed, and valid until the next fetch.
        """
        if fetch.session_epoch <= FULL:
            self._sessions.pop(fetch.asked_session, None)
            asked = fetch.asked
            if fetch.session_epoch == FULL and fetch.session and not fetch.error:
                self._keep(fetch.session, Session(0, dict(asked)))
            return asked, False
        session = self._sessions.get(fetch.asked_session)
        goes_on = session is not None and session.epoch + 1 == fetch.session_epoch
        if session is None or not goes_on:
            self.gaps += 1
            session = Session(fetch.session_epoch)
        session.epoch = fetch.session_epoch
        if fetch.asked:
            if len(session.asked) > MAX_ASKED:
                session.asked.clear()
            session.asked.update(fetch.asked)
        for key in fetch.forgotten:
            session.asked.pop(key, None)
        if fetch.session == fetch.asked_session:
            if goes_on:
                self._sessions.move_to_end(fetch.session)
            else:
                self._keep(fetch.session, session)
        else:
            self._sessions.pop(fetch.asked_session, None)
        return session.asked, goes_on

    def _keep(self, number: int, session: Session) -> None:
        self._sessions[number] = session
        self._sessions.move_to_end(number)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
