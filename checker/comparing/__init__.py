"""Two models held against each other: revisions, rules, mutants; and what a search covered."""
