"""Shared by all parts of the checker: exit statuses, memory, files, processes, terminal text.

In: small files and processes. Out: checked values, and InputError for bad ones. It knows no protocol and no scenario.
"""
