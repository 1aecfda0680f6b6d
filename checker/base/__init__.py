"""Shared by all parts: problems and exit statuses, memory, untrusted files, processes, text for a terminal."""
