"""``replay --follow``: the loop beside a running cluster, and its outputs for people and for other programs."""
