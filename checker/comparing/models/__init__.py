"""Models of two revisions: read from git, rebuilt, compared by expressions and by states."""
