"""Coverage of a protocol: which of its guards, branches and rules a set of states has exercised.

``sites`` finds the guards and branches with their lines, ``counting`` asks them in every state, ``rules`` asks what
each rule changes, ``gathering`` takes the states of scenarios and traces, ``report`` and ``page`` tell.
"""
