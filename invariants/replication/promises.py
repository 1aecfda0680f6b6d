"""Which of the properties a version answers for: what KIP-966 promises it promises where the ELR is on."""

from __future__ import annotations

import re
from collections.abc import Set

from highwater.model.language.protocol import Invariant


def is_promised(found: Invariant, rules: Set[str]) -> bool:
    """Whether a version with these rules answers for a property.

    A property that other proposals ask for too is promised without the ELR as well.
    """
    by_kip_966 = all(re.match(r"\s*966\.", part) for part in found.source.split(","))
    return not by_kip_966 or "eligible_leader_replicas" in rules
