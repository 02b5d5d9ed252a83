"""The program of the init container ``grove-initc``: it ends when the pods it waits for are ready.

``argument`` reads its arguments, ``waiting`` decides when enough pods are ready, ``program`` watches them.
"""

from .argument import ArgumentError, parse_arguments
from .waiting import missing_pods

__all__ = ["ArgumentError", "missing_pods", "parse_arguments"]
