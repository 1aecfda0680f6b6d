"""The visited set on disk, for searches that exceed memory and for checkpoints: sorted runs of fingerprints."""
