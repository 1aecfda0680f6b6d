"""The properties of each protocol, each with its rule and its reason. Each protocol has a module or a package."""
