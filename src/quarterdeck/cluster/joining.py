"""Nodes that join a cluster which has none: whatever runs workloads begins with the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quarterdeck.api.k8s import Node
from quarterdeck.cluster.agent.names import RUNTIME
from quarterdeck.cluster.node import names
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "joining-node-controller"


def _joins(event: ObjectEvent[Any]) -> bool:
    """Whether somebody stands behind a node: a simulated kubelet, or an agent. Others are only objects."""
    labels = event.entry.labels
    return labels.get(names.SIMULATED) == "true" or RUNTIME in labels


def joining_controller(begin: Callable[[], None]) -> Controller[Node]:
    """The controller, for ``manager.add``; ``begin`` is called once, when a node is there that runs pods."""
    has_begun = False

    async def reconcile(_ctx: Context[Node]) -> Result | None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            begin()
        return None

    joins = Predicate("joins", create=_joins, update=_joins, delete=lambda _: False)
    return Builder(name=NAME).for_(Node, predicates=[joins]).build(reconcile)
