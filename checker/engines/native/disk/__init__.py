"""Searches that exceed memory, or survive a kill: sorted runs of fingerprints, and checkpoints."""
