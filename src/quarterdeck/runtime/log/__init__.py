"""Log lines: how they look, what their fields are, and how often the same error is logged."""

from quarterdeck.runtime.log.field import FieldLogger, bound_fields, current_fields, get_logger

from .output import ConsoleFormatter, JsonFormatter, LogControl, RepeatFilter, configure, redact
from .unconfigured import write_when_unconfigured

__all__ = [
    "ConsoleFormatter",
    "FieldLogger",
    "JsonFormatter",
    "LogControl",
    "RepeatFilter",
    "bound_fields",
    "configure",
    "current_fields",
    "get_logger",
    "redact",
]

write_when_unconfigured()
