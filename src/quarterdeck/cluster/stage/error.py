"""What is wrong with a Stage."""

from quarterdeck.errors import QuarterdeckError


class StageError(QuarterdeckError):
    """A Stage asks for something that is not there, or makes no sense."""
