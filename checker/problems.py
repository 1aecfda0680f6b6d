"""Bad requests and bad input: one line that says where, what is wrong, and what was probably meant."""

from __future__ import annotations

from highwater.errors import HighwaterError
from highwater.model.names import unknown


class InputError(HighwaterError):
    """A request or a file that cannot be used. The message is one line and stands for itself."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


__all__ = ["InputError", "unknown"]
