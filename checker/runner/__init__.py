"""How scenarios are run: one, or several side by side, with progress."""
