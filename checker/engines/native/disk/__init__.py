"""Searches that exceed memory or survive a kill: sorted runs of fingerprints on disk, and visited sets made of them."""
