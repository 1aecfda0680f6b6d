"""The base of every error that a user's request or input can cause."""


class HighwaterError(Exception):
    """Something that was asked or given cannot be used. The message is one line and stands for itself.

    InputError: a request, a scenario's file; LanguageError: a protocol's text; TraceError: what is to be replayed.
    """
