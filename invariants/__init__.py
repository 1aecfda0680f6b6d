"""The properties of each protocol, each with its rule and its reason. Each protocol has a module or a package.

In: a protocol and symbolic states, or plain values of a replay. Out: conditions. It may import the model alone.
"""
