"""What a command says when the user can mend it."""

from quarterdeck.errors import QuarterdeckError


class CommandError(QuarterdeckError):
    """Shown without a traceback; the exit code is 1."""
