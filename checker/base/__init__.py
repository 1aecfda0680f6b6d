"""What every part stands on: problems and exit statuses, memory, files that are not believed, lines and words for people."""
