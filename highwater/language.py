"""The words in which a protocol is stated, for protocols of one's own: ``from highwater.language import …``.

They are those of ``highwater.model.language``; docs/language.md is their reference.
"""

from highwater.model import language as _language
from highwater.model.language import *  # noqa: F403

__all__ = _language.__all__
