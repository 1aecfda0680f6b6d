"""What must hold of the metadata quorum, and what must happen."""

from invariants.quorum.liveness import LIVENESS
from invariants.quorum.safety import INVARIANTS

__all__ = ["INVARIANTS", "LIVENESS"]
