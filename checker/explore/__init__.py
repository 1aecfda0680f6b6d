"""Manual exploration of a state space: a session over states, conditions in the protocol's terms, the page's server."""
