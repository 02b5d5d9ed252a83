"""Gauges follow the status and go with the group."""

from __future__ import annotations

from quarterdeck.operators.nodegroup.metrics import NodeGroupMetrics
from quarterdeck.runtime.metrics import Registry


def test_numbers_of_a_status_are_exposed_until_the_group_is_gone() -> None:
    registry = Registry()
    metrics = NodeGroupMetrics(registry)
    metrics.observe("gpu", {"nodes": 3, "ready": 2, "conditionSummary": {"ready": "False"}})
    assert registry.value("quarterdeck_nodegroup_nodes", "gpu", "nodes") == 3
    assert registry.value("quarterdeck_nodegroup_nodes", "gpu", "max") == 0
    assert registry.value("quarterdeck_nodegroup_error", "gpu") == 1
    metrics.forget("gpu")
    assert b'group="gpu"' not in registry.expose()
