"""The admission plugins under upstream's names, one concept a module; `catalog` knows them all."""

from .base import Plugin
from .catalog import (
    DEFAULT,
    FOR_CLUSTERS,
    FOR_TESTS,
    KNOWN,
    NODE_RESTRICTION,
    SERVICE_ACCOUNT,
    UnknownPlugin,
    choose,
    plugins,
)

__all__ = [
    "DEFAULT",
    "FOR_CLUSTERS",
    "FOR_TESTS",
    "KNOWN",
    "NODE_RESTRICTION",
    "SERVICE_ACCOUNT",
    "Plugin",
    "UnknownPlugin",
    "choose",
    "plugins",
]
