"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Resource
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.rbac import Rule

from .controllers import jobset_controller, placement_controller
from .types import definition
from .webhooks import CONFIGURATION, jobset_webhooks, pod_webhooks

_READ_BY_WEBHOOKS: Final = (
    Rule(groups=("",), resources=("pods",), verbs=("list",)),
    Rule(groups=("",), resources=("nodes",), verbs=("get",)),
)


class JobSetOperator:
    """JobSets."""

    name: Final = "jobset"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The definition of JobSet."""
        return [definition()]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Jobs and Services as they are; pods are not cached."""
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers and webhooks."""
        manager.add(jobset_controller())
        manager.add(placement_controller())
        return OperatorWebhooks(
            configuration=CONFIGURATION,
            admission=(*jobset_webhooks(), *pod_webhooks(manager.api_reader)),
            rules=_READ_BY_WEBHOOKS,
        )


def operator() -> Operator:
    """For the entry point."""
    return JobSetOperator()
