"""What an embedded cluster is told about JobSets: the definition and the admission webhooks.

The controller is not here: it runs beside that of Jobs, on the same cache (``quarterdeck.cluster.workload``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Resource
from quarterdeck.api.jobset import definition
from quarterdeck.cluster.jobset.webhook import CONFIGURATION, jobset_webhooks
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks

__all__ = ["JobSetAdmission"]


class JobSetAdmission:
    """Joins a program as an operator does."""

    name: Final = "jobset"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The definition of JobSet."""
        return [definition()]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Nothing is read."""
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """The webhooks to be served; no controllers."""
        return OperatorWebhooks(configuration=CONFIGURATION, admission=jobset_webhooks())
