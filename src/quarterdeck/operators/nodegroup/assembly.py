"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import Resource
from quarterdeck.api.k8s import Secret
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.controllers import (
    registration_controller,
    simulation_controller,
    status_controller,
)
from quarterdeck.operators.nodegroup.metrics import NodeGroupMetrics
from quarterdeck.operators.nodegroup.types import ModuleConfig, definition
from quarterdeck.operators.nodegroup.webhooks import (
    ClusterReader,
    LiveReader,
    NodeGroupConverter,
    SyncedReader,
    policy_webhook,
    simple_webhook,
)
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.rbac import Rule

_READ_BY_WEBHOOKS: Final = (
    Rule(groups=("",), resources=("endpoints", "nodes", "secrets"), verbs=("get", "list")),
    Rule(groups=(names.GROUP,), resources=("moduleconfigs",), verbs=("get", "list", "watch")),
)


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to set; what is set all the same is refused by name."""


class NodeGroupOperator:
    """NodeGroups: conversion, validation, status; in an embedded cluster their nodes as well."""

    name: Final = "nodegroup"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The definition with its three versions; the conversion stanza is registered with the webhooks."""
        return [definition()]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Secrets of other namespaces need not be cached."""
        return {Secret: KindOptions(namespaces=(names.SYSTEM_NAMESPACE, names.MODULE_NAMESPACE))}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers and webhooks."""
        environment.decode(NoSettings)
        metrics = manager.metrics
        manager.add(
            status_controller(
                NodeGroupMetrics(metrics.registry) if isinstance(metrics, RuntimeMetrics) else None
            )
        )
        if environment.is_embedded:
            manager.add(simulation_controller())
        manager.cache.informer(ModuleConfig, optional=True)
        live = LiveReader(manager.api_reader)
        cluster = ClusterReader(SyncedReader(manager.cache, live), live=live)
        manager.add_conversion(NodeGroupConverter(cluster))
        webhooks = (simple_webhook(cluster), policy_webhook(cluster))
        if not environment.registers_webhooks:
            manager.add(registration_controller(webhooks))
        return OperatorWebhooks(
            configuration=names.VALIDATING_CONFIGURATION,
            admission=webhooks,
            converted=(names.CRD_NAME,),
            rules=_READ_BY_WEBHOOKS,
        )


def operator() -> Operator:
    """For the entry point."""
    return NodeGroupOperator()
