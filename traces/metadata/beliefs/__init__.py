"""The automaton of a partition: belief states, and the model's actions that explain its observations."""
