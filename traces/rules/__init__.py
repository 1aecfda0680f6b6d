"""The model's decisions and its rules about logs as functions of plain values, and the rule sets of versions."""
