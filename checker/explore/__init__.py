"""A state space by hand: a session over states, conditions in the protocol's own terms, and the page's server."""
