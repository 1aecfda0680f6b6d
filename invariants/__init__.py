"""The properties of each protocol, one module or package a protocol: each with its rule and its reason."""
