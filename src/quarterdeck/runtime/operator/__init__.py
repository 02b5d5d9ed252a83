"""Operators as programs run them: what one consists of, what it installs, which permissions it needs."""

from .operator import (
    ENTRY_POINTS,
    Operator,
    OperatorEnvironment,
    OperatorWebhooks,
    ServedAddress,
    installed_operators,
)

__all__ = [
    "ENTRY_POINTS",
    "Operator",
    "OperatorEnvironment",
    "OperatorWebhooks",
    "ServedAddress",
    "installed_operators",
]
