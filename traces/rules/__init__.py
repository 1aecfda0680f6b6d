"""The model's decisions and its rules about logs, as functions of plain values; and the sets of rules in force."""
