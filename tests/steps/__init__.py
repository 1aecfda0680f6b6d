"""Properties of steps in every engine."""
