"""The default scheduler: nothing to make, pods are named after it."""

from __future__ import annotations

import msgspec

from quarterdeck.operators.grove import names

from .contract import Backend
from .error import BackendError

__all__ = ["KubeBackend", "KubeOptions"]


class KubeOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of the default scheduler."""

    gang_scheduling: bool = False
    """Make the gangs known to the scheduler's own gang API; not available yet."""


class KubeBackend(Backend):
    """``default-scheduler``."""

    options_type = KubeOptions

    @property
    def name(self) -> str:
        """The default scheduler's name."""
        return names.DEFAULT_SCHEDULER

    def init(self) -> None:
        """Refuses what cannot be done."""
        if msgspec.convert(self.config, KubeOptions).gang_scheduling:
            raise BackendError(
                "gangScheduling needs the Workload API (scheduling.k8s.io), which this version does not use"
            )
