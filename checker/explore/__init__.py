"""Manual exploration: a session over states, conditions in the protocol's terms, and the page's server."""
