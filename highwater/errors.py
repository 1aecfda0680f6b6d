"""The base of every error that a user's request or input can cause."""


class HighwaterError(Exception):
    """A request or an input is invalid. The message is one line.

    InputError: a request or a scenario file; LanguageError: the text of a protocol; TraceError: the input of a replay.
    """
