"""Models of two revisions: they are read from git, rebuilt, and compared by expressions and by states."""
