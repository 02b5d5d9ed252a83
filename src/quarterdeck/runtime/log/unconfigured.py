"""Where nobody configured logging: warnings and errors go to standard error, with their values.

The last resort of ``logging`` prints the text of a record alone, and texts of the runtime hold no values:
"cannot list" without the name of what, or why. As soon as anybody gives the root logger a handler, by
``configure`` or otherwise, this one is silent.
"""

import logging
import sys

from quarterdeck.runtime.log.output import ConsoleFormatter, RepeatFilter


class _LastResort(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless others are there to do it."""
        if not logging.getLogger().handlers:
            print(self.format(record), file=sys.stderr, flush=True)


def write_when_unconfigured(logger: str = "quarterdeck") -> None:
    """Once per logger."""
    target = logging.getLogger(logger)
    if any(isinstance(each, _LastResort) for each in target.handlers):
        return
    handler = _LastResort(level=logging.WARNING)
    handler.setFormatter(ConsoleFormatter(colour=False))
    handler.addFilter(RepeatFilter())
    target.addHandler(handler)
