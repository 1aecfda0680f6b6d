"""What was found out about a request, kept beside the machine code: nothing is traced twice for it.

A fact lies under the request's name (``asking/model_key.py``), which a change of source or settings changes, and what
else was asked. Where machine code is not kept, no fact is. What lies on disk is read as JSON and must have the fact's
form; otherwise it is found out anew.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

from highwater.checker.engines import cache as code_cache

Fact = TypeVar("Fact")


def found(kind: type[Fact], identity: bytes | None, *asked: object) -> Fact | None:
    """The fact of this kind that was kept, a dataclass; None where there is none, or the request has no name."""
    place = None if identity is None else code_cache.chosen()
    content = None if place is None else place.get(_key(kind, identity, asked))
    if content is None:
        return None
    import msgspec

    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def keep(fact: object, identity: bytes | None, *asked: object) -> None:
    """Keep a fact for the next time, where the request has a name."""
    place = None if identity is None else code_cache.chosen()
    if place is not None:
        import msgspec

        place.put(_key(type(fact), identity, asked), msgspec.json.encode(fact))


def _key(kind: type[object], identity: bytes | None, asked: object) -> bytes:
    return hashlib.sha256(repr(("fact", kind.__qualname__, identity, asked)).encode()).digest()
