"""What is under way to a broker: control requests in the order in which they were sent.

A connection is that of one controller to one generation of a broker, as that controller knows it; on a connection
nothing overtakes. A late copy of a request waits on a connection of its own, which was given up.
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import SeqValue, StructValue, Truth, any_of, as_bool, where


def deliverable(channel: SeqValue, position: int) -> Truth:
    """Whether a request can arrive next: it heads its connection. A late copy did so before it was one."""
    request = channel.at(position)
    before = [channel.at(earlier) for earlier in range(position)]
    waits = any_of(
        ~other.late & (other.controller == request.controller) & (other.broker_epoch == request.broker_epoch)
        for other in before
    )
    return (channel.length > position) & ~waits


def without(channel: SeqValue, position: int) -> SeqValue:
    """The requests but for one; there is a request at that position."""
    last = channel.type.maximum - 1
    nodes = list((channel.length - 1).nodes)
    for i in range(channel.type.maximum):
        if i < position:
            nodes += channel.at(i).nodes
        elif i < last:
            nodes += channel.at(i + 1).nodes
        else:
            nodes += channel.type.element.zero().nodes
    return channel.type.wrap(nodes)


def sent_if(condition: Any, channel: SeqValue, request: StructValue) -> SeqValue:
    """One more request where the condition holds; over its length the channel leaves its type."""
    result: SeqValue = where(as_bool(condition), channel.append(request), channel)
    return result
