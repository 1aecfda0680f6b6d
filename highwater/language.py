"""The language of protocols, for a user's own protocol: ``from highwater.language import …``.

The names are those of ``highwater.model.language``; docs/language.md is their reference.
"""

from highwater.model import language as _language
from highwater.model.language import *  # noqa: F403

__all__ = _language.__all__
