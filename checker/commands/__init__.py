"""The commands of ``highwater``, a module each. Nothing imports them but ``checker.cli``."""
