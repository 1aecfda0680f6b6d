"""The checker: engines, scenarios, counterexamples, reports and the command line."""

__version__ = "0.1.0"
