"""Amounts as the scheduler counts them, written as the API writes them."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Quantity
from quarterdeck.operators.kai import names
from quarterdeck.scheduler.resource import Resources

_MEBIBYTE: Final = 1 << 20


def resource_list(resources: Resources, *, keep_zeros: bool = False) -> dict[str, Quantity]:
    """The amounts as a resource list; what is zero is left out unless ``keep_zeros``."""
    memory = resources.memory
    amounts = {
        "cpu": Quantity.of_milli(resources.cpu),
        "memory": Quantity.of_bytes(memory) if memory % _MEBIBYTE == 0 else Quantity.of_milli(memory * 1000),
        names.GPU_RESOURCE: Quantity.of_milli(round(resources.gpu * 1000)),
        **{name: Quantity.of_milli(amount * 1000) for name, amount in resources.scalars},
    }
    return {name: amount for name, amount in amounts.items() if amount or keep_zeros}
