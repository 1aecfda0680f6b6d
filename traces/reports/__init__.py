"""The result of a replay: the report and its incidents, as text, page and JSON.

In: findings and tenures. Out: incidents with causes and steps. It reads no log, and decides no rule.
"""
