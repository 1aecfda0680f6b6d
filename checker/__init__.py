"""The checker: engines, scenarios, counterexamples, reports and the command line."""
