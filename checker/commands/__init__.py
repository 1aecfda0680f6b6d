"""The commands of ``highwater``, one module each. Only ``highwater.checker.cli`` imports them."""
