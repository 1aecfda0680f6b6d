"""The package of what all parts of the checker share: exit statuses, memory, files, processes, terminal text."""
