"""The rulebook of the protocols: every rule by number, with its reason and its proposal.

The rules' text is in ``rulebook.toml``. ``highwater show 966.4`` prints a rule and every reference to it.
"""

from pathlib import Path

from highwater.model.language import Rulebook
from highwater.model.language.rulebook import Audit

RULEBOOK = Rulebook(Path(__file__).with_name("rulebook.toml"), tested=True)
"""The rule of each number. The file is read on first use."""

AUDIT = Audit(Path(__file__).with_name("audit.toml"), RULEBOOK)
"""The audited sentences of the proposals. The file is read on first use."""
