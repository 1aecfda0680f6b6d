"""The automaton of all partitions: belief states, and the model's actions that explain its observations.

In: a belief state and an observed change. Out: the next belief state, or the refusals. Slots replace broker ids here.
"""
