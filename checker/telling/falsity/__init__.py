"""Which part of a property is false in a state, in the words of its source and with its values.

The property's function is run once more, on the scalars of one state, so that all is known; then its source is read
beside what it came to: of a conjunction the part that is false, of a quantifier the value for which it is.
"""

from highwater.checker.telling.falsity.parts import PropertyPart, false_part

__all__ = ["PropertyPart", "false_part"]
