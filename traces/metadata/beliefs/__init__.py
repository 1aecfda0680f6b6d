"""The automaton of one partition: belief states, and what explains the observations between them."""
