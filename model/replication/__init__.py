"""Replication of partitions in KRaft mode: the whole protocol, at the level of messages.

Other protocols and what must hold ask functions of modules here; the protocol itself is loaded when it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.model.replication.protocol import PROTOCOL, Replication


def __getattr__(name: str) -> Any:
    if name in __all__:
        from highwater.model.replication import protocol

        return getattr(protocol, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["PROTOCOL", "Replication"]
