"""The protocols: the language they are stated in, and one package for each."""
