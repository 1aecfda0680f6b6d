"""The rulebook of the protocols: every rule by its number, with its reason and the proposal it comes from.

The text of the rules is in ``rulebook.toml``. ``highwater show 966.4`` prints a rule with all that refers to it.
"""

from pathlib import Path

from highwater.model.language.rulebook import Audit, Rulebook

RULEBOOK = Rulebook(Path(__file__).with_name("rulebook.toml"), tested=True)
"""Number to rule; read when it is first asked."""

AUDIT = Audit(Path(__file__).with_name("audit.toml"), RULEBOOK)
"""The proposals sentence by sentence; read when it is first used."""
