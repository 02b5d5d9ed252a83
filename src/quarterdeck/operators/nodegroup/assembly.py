"""The operator put together: what a program adds to its manager and its webhook server.

    manager = Manager(config, cache=CacheOptions(by_kind=cached_kinds()), webhooks=server)
    live = manager.api_reader
    add_webhooks(server, ClusterReader(SyncedReader(manager.cache, live), live=live))
    add_controllers(manager)

``quarterdeck run`` and ``quarterdeck up`` do this; the definition itself comes from ``types.definition``.
"""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.api import Resource
from quarterdeck.api.k8s import Secret
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.controllers import (
    registration_controller,
    simulation_controller,
    status_controller,
)
from quarterdeck.operators.nodegroup.metrics import NodeGroupMetrics
from quarterdeck.operators.nodegroup.webhooks import (
    ClusterReader,
    ConversionWebhook,
    policy_webhook,
    simple_webhook,
)
from quarterdeck.operators.nodegroup.webhooks.conversion import BODY_LIMIT
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.manager import Manager
from quarterdeck.runtime.webhook import WebhookServer


def cached_kinds() -> Mapping[type[Resource], KindOptions]:
    """What the cache need not hold: Secrets of other namespaces."""
    return {Secret: KindOptions(namespaces=(names.SYSTEM_NAMESPACE, names.MODULE_NAMESPACE))}


def add_webhooks(server: WebhookServer, cluster: ClusterReader) -> None:
    """Serve conversion and both validations."""
    server.register(names.CONVERT_PATH, ConversionWebhook(cluster).handle, body_limit=BODY_LIMIT)
    server.add(policy_webhook(cluster), simple_webhook(cluster))


def add_controllers(
    manager: Manager,
    *,
    webhook_url: str = "",
    simulate_nodes: bool = False,
    metrics: NodeGroupMetrics | None = None,
) -> None:
    """Run the controllers; ``simulate_nodes`` is for embedded clusters, which have no cloud."""
    manager.add(registration_controller(webhook_url))
    manager.add(status_controller(metrics))
    if simulate_nodes:
        manager.add(simulation_controller())
