"""What every part stands on: problems and exit statuses, memory, files not believed, lines and words for people."""
