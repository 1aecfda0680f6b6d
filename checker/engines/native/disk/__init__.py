"""The search beyond memory, and kept through a kill: sorted runs of fingerprints, and checkpoints."""
