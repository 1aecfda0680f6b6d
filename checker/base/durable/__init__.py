"""What lies on disk: written whole or not at all, believed only where it is what was written, of one owner."""
