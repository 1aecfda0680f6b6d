"""Scenarios: their files, requests made from them, and the catalogue and rulebook of what they can name.

In: TOML files and options. Out: a Request, which makes the Model, and the key of its result. It knows no engine.
"""
