"""``replay --follow``: the loop beside a running cluster, and what it writes for people and for other programs."""
