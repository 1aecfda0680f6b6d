"""The protocols, one package each, and the language in which they are written."""
