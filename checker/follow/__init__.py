"""``replay --follow``: the loop beside a running cluster, and its outputs for people and for other programs.

In: open incidents of ``traces/follow``. Out: events, metrics and exit status. It reads no log itself.
"""
