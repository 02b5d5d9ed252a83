"""Names and types of the controller options, for ``Builder.options(...)``; described in
``ControllerOptions``."""

from typing import Literal, TypedDict

__all__ = ["ControllerOptionArguments"]


class ControllerOptionArguments(TypedDict, total=False):
    """The keyword arguments of ``Builder.options``."""

    max_concurrent_reconciles: int
    cache_sync_timeout: float
    reconcile_timeout: float | None
    need_leader_election: bool
    enable_warmup: bool
    consistency: Literal["own-writes", "none"]
    consistency_timeout: float
    backoff_base: float
    backoff_cap: float
    age_rate: float
    errors: tuple[type[Exception], ...]
    recover_panic: bool
    field_manager: str
