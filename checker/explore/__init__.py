"""Manual exploration of a model: sessions, conditions that a user types, and the server of the page."""
