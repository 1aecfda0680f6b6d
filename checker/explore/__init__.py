"""Manual exploration of a model: sessions, conditions that a user types, and the server of the page.

In: a request, and what a user types. Out: states and steps as JSON. Conditions are parsed, and
never evaluated by Python.
"""
