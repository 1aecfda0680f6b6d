"""A run as a chart: who is drawn where, and what travels between them."""
