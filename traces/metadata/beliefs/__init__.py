"""The automaton of all partitions: belief states, and the model's actions that explain its observations."""
