"""How many devices a node has, read from what its pod asks for."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.api import Quantity
from quarterdeck.api.k8s import ResourceRequirements


def gpu_count(resources: ResourceRequirements) -> int:
    """GPUs of any vendor: the first resource that is called so, of the requests or else of the limits."""
    return _gpus(resources.requests) or _gpus(resources.limits)


def _gpus(amounts: Mapping[str, Quantity]) -> int:
    for name in sorted(amounts):
        if "gpu" in name.lower():
            return amounts[name].value
    return 0


def cpu_count(resources: ResourceRequirements) -> int:
    """Whole CPUs, rounded up, of the requests or else of the limits; 0 if there are none."""
    requested = resources.requests.get("cpu")
    limited = resources.limits.get("cpu")
    return (requested.value if requested is not None else 0) or (limited.value if limited is not None else 0)
