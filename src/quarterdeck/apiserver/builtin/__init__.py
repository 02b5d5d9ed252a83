"""Built-in kinds of the embedded API server: defaults, validation, tables, built-in admission."""

from .catalog import strategy_for

__all__ = ["strategy_for"]
