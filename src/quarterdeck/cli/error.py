"""What a command says when the user can mend it."""


class CommandError(Exception):
    """Shown without a traceback; the exit code is 1."""
