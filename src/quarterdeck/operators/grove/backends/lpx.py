"""LPX: pods are named after its scheduler, which knows by itself what belongs together."""

from __future__ import annotations

from typing import Final

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.topology import constrained_place
from quarterdeck.operators.grove.types import PodCliqueSet

from .contract import Backend, HookContext
from .error import BackendError

_NO_TOPOLOGY: Final = (
    "lpx-scheduler does not support Grove topology constraints; "
    "placement topology must be expressed through the LPX workload contract"
)


class LpxBackend(Backend):
    """``lpx-scheduler``."""

    @property
    def name(self) -> str:
        """LPX' name."""
        return names.LPX_SCHEDULER

    def validate_pod_clique_set(self, ctx: HookContext, pcs: PodCliqueSet) -> None:
        """Refuse topology constraints."""
        if constrained_place(pcs.spec.template):
            raise BackendError(_NO_TOPOLOGY)
