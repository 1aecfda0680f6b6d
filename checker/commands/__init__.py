"""The commands of ``highwater``, one module each. Only ``highwater.checker.cli`` imports them.

In: the options that click has parsed. Out: printed reports and an exit status. A command may import every package of
the checker, and contains no rule and no search.
"""
