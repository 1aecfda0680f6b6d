"""The protocols, one package each, and the language in which they are written.

In: parameters and rules. Out: traced models, and handlers as functions. It knows no engine, property or recording.
"""
