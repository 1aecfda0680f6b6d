"""What must hold, one module a protocol, each property with its rule and the reason why it matters."""
