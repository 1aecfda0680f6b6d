"""The commands of ``highwater``, a module each. Nothing imports them but ``highwater.checker.cli``."""
